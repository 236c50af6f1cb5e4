package wire

import "github.com/tidemark-dev/tidemark/client/records"

// SettingPut is a new value of a setting.
type SettingPut struct {
	Value  *string `json:"value"`            // required
	Secret *bool   `json:"secret,omitempty"` // left out: as it is, or as its name says
}

// Settings is a page of settings, by name.
type Settings struct {
	Settings []records.Setting `json:"settings"`
	Cursor   string            `json:"cursor,omitempty"` // of the next page; left out on the last
}

// SavedSettings is a backup of settings, or a page of one.
type SavedSettings struct {
	Settings []records.SavedSetting `json:"settings"`
	Cursor   string                 `json:"cursor,omitempty"` // of the next page; left out on the last, and in a whole backup
}

// ImportedSettings is the answer to an import.
type ImportedSettings struct {
	Imported int `json:"imported"`
}

// SettingChange is a message on the channel of settings.
type SettingChange struct {
	Name     string `json:"name"`
	Category string `json:"category"`
	Event    string `json:"event"` // put or deleted
}
