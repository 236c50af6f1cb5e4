package wire

// SettingPut is a new value of a setting.
type SettingPut struct {
	Value  *string `json:"value"`            // required
	Secret *bool   `json:"secret,omitempty"` // left out: as it is, or as its name says
}

// Setting is a setting. A secret that isn't shown has no value.
type Setting struct {
	Name     string  `json:"name"`
	Category string  `json:"category"`
	Secret   bool    `json:"secret"`
	Value    *string `json:"value,omitempty"`
}

// Settings is a page of settings, by name.
type Settings struct {
	Settings []Setting `json:"settings"`
	Cursor   string    `json:"cursor,omitempty"` // of the next page; left out on the last
}

// SavedSetting is a setting in a backup, with its value in the clear.
type SavedSetting struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"` // required
	Secret *bool   `json:"secret,omitempty"`
}

// SavedSettings is a backup of settings, or a page of one.
type SavedSettings struct {
	Settings []SavedSetting `json:"settings"`
	Cursor   string         `json:"cursor,omitempty"` // of the next page; left out on the last, and in a whole backup
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
