package records

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tidemark-dev/tidemark/client"
)

// Setting is a setting. Its Value is nil if it is a secret that isn't shown.
type Setting struct {
	Name     string  `json:"name"`
	Category string  `json:"category"`
	Secret   bool    `json:"secret"`
	Value    *string `json:"value,omitempty"`
}

// SavedSetting is a setting in a backup, with its value in the clear.
type SavedSetting struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"` // required
	Secret *bool   `json:"secret,omitempty"`
}

// Setting returns a setting, with its value if it is no secret or the client has the action admin. Errors:
// ErrNoSetting, ErrInvalidID.
func (c *Client) Setting(ctx context.Context, name string) (Setting, error) {
	var s Setting
	_, err := c.service.Do(ctx, settingCall("get", http.MethodGet, name, nil), &s)
	return s, err
}

type settingPut struct {
	Value  string `json:"value"`
	Secret *bool  `json:"secret,omitempty"`
}

// PutSetting writes a setting. If secret is nil, an existing setting keeps its secrecy, and that of a new one follows
// from its name. Errors: ErrInvalidID, ErrInvalidSetting, ErrTooManySettings.
func (c *Client) PutSetting(ctx context.Context, name, value string, secret *bool) (Setting, error) {
	var s Setting
	_, err := c.service.Do(ctx, settingCall("put", http.MethodPut, name,
		settingPut{Value: value, Secret: secret}), &s)
	return s, err
}

// DeleteSetting removes a setting. It succeeds if there is none. Errors: ErrInvalidID.
func (c *Client) DeleteSetting(ctx context.Context, name string) error {
	_, err := c.service.Do(ctx, settingCall("delete", http.MethodDelete, name, nil), nil)
	return err
}

func settingCall(what, method, name string, body any) client.Call {
	return client.Call{What: what + " setting " + name, Method: method, Path: []string{"settings", name}, Body: body}
}

// Settings returns the settings of a category, "" for all, by name. Secrets have no values.
func (c *Client) Settings(ctx context.Context, category string) ([]Setting, error) {
	var all []Setting
	err := eachPage(category, func(query url.Values) (string, error) {
		var page struct {
			Settings []Setting `json:"settings"`
			Cursor   string    `json:"cursor"`
		}
		_, err := c.service.Do(ctx, client.Call{What: "list settings", Method: http.MethodGet,
			Path: []string{"settings"}, Query: query}, &page)
		all = append(all, page.Settings...)
		return page.Cursor, err
	})
	return all, err
}

// ExportSettings returns all settings of a category, "" for all, with their values. It needs the service's admin
// address.
func (c *Client) ExportSettings(ctx context.Context, category string) ([]SavedSetting, error) {
	var all []SavedSetting
	err := eachPage(category, func(query url.Values) (string, error) {
		var page struct {
			Settings []SavedSetting `json:"settings"`
			Cursor   string         `json:"cursor"`
		}
		_, err := c.service.Do(ctx, client.Call{
			What: "export settings", Method: http.MethodGet, Path: []string{"settings", "export"}, Query: query,
		}, &page)
		all = append(all, page.Settings...)
		return page.Cursor, err
	})
	return all, err
}

// eachPage calls read with the query of each page. read returns the cursor of the next one.
func eachPage(category string, read func(query url.Values) (cursor string, err error)) error {
	query := url.Values{}
	if category != "" {
		query.Set("category", category)
	}
	for {
		cursor, err := read(query)
		if err != nil || cursor == "" {
			return err
		}
		query.Set("cursor", cursor)
	}
}

// The bounds of the calls of an import.
const (
	importAtOnce = 100
	importBytes  = 256 << 10 // of values
)

// ImportSettings puts settings, in calls of up to 100, and returns how many were put before an error: a repeat is safe.
// It needs the service's admin address. Errors: ErrInvalidID, ErrInvalidSetting, ErrTooManySettings.
func (c *Client) ImportSettings(ctx context.Context, all []SavedSetting) (imported int, err error) {
	for imported < len(all) {
		n, size := 0, 0
		for ; n < importAtOnce && imported+n < len(all); n++ {
			if value := all[imported+n].Value; value != nil {
				size += len(*value)
			}
			if size > importBytes {
				break
			}
		}
		n = max(n, 1)
		_, err := c.service.Do(ctx, client.Call{
			What: "import settings", Method: http.MethodPost, Path: []string{"settings", "import"},
			Body: map[string][]SavedSetting{"settings": all[imported : imported+n]},
		}, nil)
		if err != nil {
			return imported, err
		}
		imported += n
	}
	return imported, nil
}
