package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
)

// maxSurveyRate is how many keys a survey may examine per second.
const maxSurveyRate = 1_000_000

// addSurvey adds the routes of the survey of keys, which a person starts.
func addSurvey(r *web.Router, job *keyspace.Job) {
	const path = "/v1/survey"
	a := web.API{Router: r, Fail: web.Fail}
	a.AddGet(web.Route{Path: path, Action: access.Admin, Admin: true,
		Handle: func(c *web.Call) error { return c.Value(http.StatusOK, job.Show()) }})
	a.Add(web.Route{Method: http.MethodPost, Path: path, Query: web.QueryRead, Action: access.Admin, Admin: true,
		Handle: func(c *web.Call) error {
			numbers := map[string]int{"rate": keyspace.DefaultRate, "largest": 10}
			limits := map[string]int{"rate": maxSurveyRate, "largest": keyspace.MaxLargest}
			err := web.ReadQuery(c.Request().URL.RawQuery, []string{"rate", "largest"}, func(name, value string) error {
				n, err := strconv.Atoi(value)
				if err != nil || n < 1 || n > limits[name] {
					return web.RefuseParameter(name, fmt.Sprintf("%s must be from 1 to %d", name, limits[name]))
				}
				numbers[name] = n
				return nil
			})
			if err != nil {
				return err
			}
			return c.Value(http.StatusOK, job.Start(numbers["rate"], numbers["largest"]))
		}})
	a.Add(web.Route{Method: http.MethodDelete, Path: path, Action: access.Admin, Admin: true,
		Handle: func(c *web.Call) error {
			job.Cancel()
			return c.NoContent()
		}})
}
