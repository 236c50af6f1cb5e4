package records

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Settings stores settings.
type Settings interface {
	Put(ctx context.Context, n records.NewSetting) (records.Setting, error)
	Get(ctx context.Context, name string, clear bool) (records.Setting, error)
	Delete(ctx context.Context, name string) error
	List(ctx context.Context, l records.SettingList) (page []records.Setting, next string, err error)
	Import(ctx context.Context, all []records.NewSetting) error
}

func addSettings(a web.API, service Settings) {
	const all, single = "/v1/settings", "/v1/settings/:name"
	h, each, every := &settingCalls{service}, of("settings", 1), of("settings", 0)
	a.Add(web.Route{Method: http.MethodPut, Path: single, Action: access.Write, Of: each, Handle: h.put})
	a.Add(web.Route{Method: http.MethodDelete, Path: single, Action: access.Write, Of: each, Handle: h.delete})
	a.AddGet(web.Route{Path: single, Action: access.Read, Of: each, Handle: h.get})
	a.AddGet(web.Route{Path: all, Query: web.QueryRead, Action: access.Read, Of: every, Handle: h.list})
	a.AddGet(web.Route{Path: all + "/export", Query: web.QueryRead, Action: access.Admin, Admin: true,
		Handle: h.export})
	a.Add(web.Route{Method: http.MethodPost, Path: all + "/import", Action: access.Admin, Admin: true, Handle: h.load})
	a.NothingBelow(single)
}

type settingCalls struct{ service Settings }

// missing is the error for a body without a required member.
func missing(member string) error {
	return &wire.InputError{Slug: fault.SlugInvalidBody, Detail: member + ": is missing", Field: "/" + member,
		Offset: -1}
}

// put is PUT /v1/settings/{name}.
func (h *settingCalls) put(c *web.Call) error {
	return answer(c, http.StatusOK, func(asked wire.SettingPut) (clientrecords.Setting, error) {
		if asked.Value == nil {
			return clientrecords.Setting{}, missing("value")
		}
		kept, err := h.service.Put(c.Context(), records.NewSetting{Name: c.Param(0), Value: *asked.Value,
			Secret: asked.Secret})
		shown := shownSetting(kept)
		shown.Value = nil // the client has it
		return shown, err
	}, "name")
}

func shownSetting(s records.Setting) clientrecords.Setting {
	shown := clientrecords.Setting{Name: s.Name, Category: string(s.Category), Secret: s.Secret}
	if !s.Masked {
		shown.Value = &s.Value
	}
	return shown
}

// get is GET /v1/settings/{name}. Secrets are shown to clients with admin permission.
func (h *settingCalls) get(c *web.Call) error {
	if records.ReservedSetting(c.Param(0)) {
		return web.OnlyAdmin(web.ErrNoPath) // it has routes of these names
	}
	clear := c.Allow(access.Admin, access.Resource{}) == nil
	found, err := h.service.Get(c.Context(), c.Param(0), clear)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, shownSetting(found))
}

// delete is DELETE /v1/settings/{name}.
func (h *settingCalls) delete(c *web.Call) error {
	return done(c, h.service.Delete(c.Context(), c.Param(0)))
}

// page reads the parameters of a list.
func page(c *web.Call) (l records.SettingList, err error) {
	l = records.SettingList{Limit: records.MaxSettingsPage}
	err = web.ReadQuery(c.Request().URL.RawQuery, []string{"category", "cursor", "limit"},
		func(name, value string) (err error) {
			switch name {
			case "category":
				l.Category = records.Category(value)
			case "cursor":
				l.After = value
			default:
				if l.Limit, err = strconv.Atoi(value); err != nil || l.Limit < 1 || l.Limit > records.MaxSettingsPage {
					return web.RefuseParameter(name, fmt.Sprintf("limit is %.64q, it must be from 1 to %d", value,
						records.MaxSettingsPage))
				}
			}
			return nil
		})
	return l, err
}

// sizeOf returns about how many bytes a list of settings has.
func sizeOf(found []records.Setting) (bytes int) {
	for _, s := range found {
		bytes += len(s.Name) + len(s.Value)
	}
	return bytes
}

// list is GET /v1/settings. It never shows secrets.
func (h *settingCalls) list(c *web.Call) error {
	asked, err := page(c)
	if err != nil {
		return err
	}
	found, next, err := h.service.List(c.Context(), asked)
	if err != nil {
		return err
	}
	answer := wire.Settings{Settings: make([]clientrecords.Setting, 0, len(found)), Cursor: next}
	for _, s := range found {
		answer.Settings = append(answer.Settings, shownSetting(s))
	}
	if err := c.Encode(sizeOf(found)); err != nil {
		return err
	}
	return c.Value(http.StatusOK, answer)
}

// export is GET /v1/settings/export.
func (h *settingCalls) export(c *web.Call) error {
	asked, err := page(c)
	if err != nil {
		return err
	}
	asked.Clear = true
	found, next, err := h.service.List(c.Context(), asked)
	if err != nil {
		return err
	}
	answer := wire.SavedSettings{Settings: make([]clientrecords.SavedSetting, 0, len(found)), Cursor: next}
	for _, s := range found {
		answer.Settings = append(answer.Settings, clientrecords.SavedSetting{Name: s.Name, Value: &s.Value, Secret: &s.Secret})
	}
	if err := c.Encode(sizeOf(found)); err != nil {
		return err
	}
	return c.Value(http.StatusOK, answer)
}

// load is POST /v1/settings/import.
func (h *settingCalls) load(c *web.Call) error {
	asked, err := decode[wire.SavedSettings](c)
	if err != nil {
		return err
	}
	all := make([]records.NewSetting, len(asked.Settings))
	for i, s := range asked.Settings {
		if s.Value == nil {
			return missing(fmt.Sprintf("settings/%d/value", i)) // as in a list, which shows no secrets
		}
		all[i] = records.NewSetting{Name: s.Name, Value: *s.Value, Secret: s.Secret}
	}
	if err := h.service.Import(c.Context(), all); err != nil {
		return inBody(err)
	}
	return c.Value(http.StatusOK, wire.ImportedSettings{Imported: len(all)})
}
