package durable

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// create is PUT of a stream.
func (d *api) create(c *web.Call) error {
	r := channel.CreateRequest{}
	var err error
	if r.Channel, err = d.name(c); err != nil {
		return err
	}
	header := c.Request().Header
	if err := checkFork(header); err != nil {
		return err
	}
	if r.Properties, err = propertiesOf(header); err != nil {
		return err
	}
	r.Close = isSet(header)
	body, err := c.Body()
	if err != nil {
		return err
	}
	if len(body.Bytes) > 0 {
		if r.Drafts, err = draftsOf(r.ContentType, body.Bytes); err != nil {
			body.Release()
			return err
		}
	}
	c.Decoded()
	made, err := d.channels.Create(c.Context(), r)
	if err != nil {
		return err // the body isn't released: an abandoned write may still be in progress
	}
	body.Release()
	if made.Existed {
		if err := matches(&r, &made.Life); err != nil {
			return err
		}
	}
	answer := c.Response().Header()
	answer.Set(headerType, typeOf(&made.Life))
	answer.Set(streamNext, offset(made.Epoch, made.Clock, made.First))
	if r.Close {
		answer.Set(streamClosed, yes)
	}
	if made.Existed {
		return c.Empty(http.StatusOK)
	}
	c.SetLocation(location(c.Request()))
	return c.Empty(http.StatusCreated)
}

// draftsOf returns the messages of a body that isn't empty.
func draftsOf(contentType string, body []byte) ([]channel.Draft, error) {
	normal, err := channel.ParseContentType(contentType)
	if err != nil {
		return nil, err
	}
	if normal != "" {
		return []channel.Draft{{ContentType: normal, Content: body}}, nil
	}
	values, err := wire.DecodeValues(body)
	if err != nil {
		return nil, err
	}
	drafts := make([]channel.Draft, len(values))
	for i := range values {
		drafts[i].Content = values[i]
	}
	return drafts, nil
}

// matches returns an error unless a stream that exists is as a request would have made it.
func matches(r *channel.CreateRequest, life *channel.Life) error {
	what := ""
	switch {
	case life.ContentType == "":
		what = "a channel that wasn't made as a stream"
	case mediaOf(life.ContentType) != mediaOf(r.ContentType):
		what = "a stream of the content type " + life.ContentType
	case life.TTL != r.TTL:
		what = "a stream with another TTL"
	case !life.Ends.Equal(r.Ends):
		what = "a stream with another end"
	case life.Closed && !r.Close:
		what = "a stream that is closed"
	case !life.Closed && r.Close:
		what = "a stream that isn't closed"
	default:
		return nil
	}
	return &fault.Error{Kind: fault.Conflict, Slug: fault.SlugChannelExists, Detail: "there is " + what}
}

// location returns the URL of a request, which the protocol has an answer repeat.
func location(r *http.Request) string {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return scheme + r.Host + r.URL.EscapedPath()
}

// life returns the name and the life of the channel that is the stream of a call.
func (d *api) life(c *web.Call) (name string, life channel.Life, err error) {
	if name, err = d.name(c); err == nil {
		life, err = d.channels.Life(c.Context(), name)
	}
	return name, life, err
}

// remove is DELETE of a stream.
func (d *api) remove(c *web.Call) error {
	name, life, err := d.life(c)
	if err != nil {
		return err
	}
	if life.ContentType == "" {
		c.Response().Header().Set("Allow", "OPTIONS, GET, HEAD, POST, PUT")
		return errNoStream
	}
	if err := d.channels.Delete(c.Context(), name); err != nil {
		return err
	}
	return c.NoContent()
}

var errNoStream = &fault.Error{Kind: fault.MethodNotAllowed, Slug: fault.SlugMethod,
	Detail: "the channel wasn't made as a stream, by PUT: only an administrator can delete it"}

// head is HEAD of a stream.
func (d *api) head(c *web.Call) error {
	_, life, err := d.life(c)
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set(headerType, typeOf(&life))
	header.Set(streamNext, offset(life.Epoch, life.Clock, life.First))
	if life.Closed {
		header.Set(streamClosed, yes)
	}
	if life.TTL > 0 {
		setNumber(header, streamTTL, int64(life.TTL.Seconds()))
	}
	if !life.Ends.IsZero() {
		header.Set(streamExpires, life.Ends.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	return c.Empty(http.StatusOK)
}
