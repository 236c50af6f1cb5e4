package records

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// decode reads and decodes a call's body. The body's memory is released when it returns.
func decode[T any](c *web.Call) (asked T, err error) {
	body, err := c.Body()
	if err != nil {
		return asked, err
	}
	defer body.Release()
	err = wire.Decode(body.Bytes, &asked)
	return asked, err
}

// answer decodes a call's body, calls do with it, and answers the result. For path see inBody.
func answer[T, A any](c *web.Call, status int, do func(asked T) (A, error), path ...string) error {
	asked, err := decode[T](c)
	if err != nil {
		return err
	}
	result, err := do(asked)
	if err != nil {
		return inBody(err, path...)
	}
	return c.Value(status, result)
}

// done answers that a call without an answer has succeeded, unless err is set.
func done(c *web.Call, err error) error {
	if err != nil {
		return err
	}
	return c.NoContent()
}

// decodeOptional is decode for an optional body. An empty body selects the default.
func decodeOptional[T any](c *web.Call, asked T) (T, error) {
	body, err := c.Body()
	if err != nil {
		return asked, err
	}
	defer body.Release()
	if len(bytes.TrimSpace(body.Bytes)) > 0 {
		err = wire.Decode(body.Bytes, &asked)
	}
	return asked, err
}

var pointers = strings.NewReplacer(".", "/", "[", "/", "]", "")

// inBody turns the field of an error, such as settings[0].name, into a JSON pointer, if it is in the body and not in
// the path.
func inBody(err error, path ...string) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.Invalid || e.Field == "" || slices.Contains(path, e.Field) {
		return err
	}
	clientErr := *e
	clientErr.Field = "/" + pointers.Replace(e.Field)
	return &clientErr
}
