package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidemark-dev/tidemark/client"
)

// apiCommands are commands that check the answers of a service.
//
//	http STATUS METHOD URL [BODY]         sends a request and prints the body of its answer, which has that status
//	await-status STATUS URL               asks until the answer has that status, and prints its body
//	await-body URL PATTERN                asks until the body of the answer has the pattern in a line
//	capture VARIABLE PATTERN              puts the first submatch in the last standard output into a variable
//	clean FILE                            writes the last standard output to a file, with fixed IDs and times
//	await-mark CHANNEL SUBSCRIBER [MARK]  waits until there is such a subscriber, at that mark
func apiCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"http": sendRequest, "await-status": awaitStatus, "await-body": awaitBody, "capture": capture, "clean": clean,
		"await-mark": awaitMark,
	}
}

func sendRequest(ts *testscript.TestScript, _ bool, args []string) {
	var body io.Reader
	if len(args) == 4 {
		body = strings.NewReader(args[3])
	}
	request, err := http.NewRequest(args[1], args[2], body)
	ts.Check(err)
	status, answer := roundTrip(ts, request)
	_, err = ts.Stdout().Write(answer)
	ts.Check(err)
	if status != args[0] {
		ts.Fatalf("%s %s was answered %s: %s", args[1], args[2], status, answer)
	}
}

func roundTrip(ts *testscript.TestScript, request *http.Request) (status string, answer []byte) {
	request.Close = true // no connection stays open
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	answer, err = io.ReadAll(response.Body)
	ts.Check(errors.Join(err, response.Body.Close()))
	return strconv.Itoa(response.StatusCode), answer
}

func awaitStatus(ts *testscript.TestScript, _ bool, args []string) {
	awaitAnswer(ts, args[1], func(status string, _ []byte) bool { return status == args[0] })
}

func awaitBody(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[1])
	awaitAnswer(ts, args[0], func(_ string, body []byte) bool { return pattern.Match(body) })
}

// awaitAnswer asks until it gets an answer that is wanted, and prints it.
func awaitAnswer(ts *testscript.TestScript, url string, wanted func(status string, body []byte) bool) {
	limit := time.After(scriptLimit)
	for {
		request, err := http.NewRequest(http.MethodGet, url, nil)
		ts.Check(err)
		status, answer := roundTrip(ts, request)
		if wanted(status, answer) {
			_, err := ts.Stdout().Write(answer)
			ts.Check(err)
			return
		}
		select {
		case <-limit:
			ts.Fatalf("%s is still answered %s: %s", url, status, answer)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func capture(ts *testscript.TestScript, _ bool, args []string) {
	match := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if match == nil {
		ts.Fatalf("standard output has no %s", args[1])
	}
	ts.Setenv(args[0], match[1])
}

// changing is the parts of answers that differ from run to run, and their replacements by clean.
var changing = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`), "00000000000000000000000000"},
	{regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`), `"2000-01-01T00:00:00Z"`},
	{regexp.MustCompile(`\b2[3-6]h\d+m\d+s\b`), "24h0m0s"},
}

func clean(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile("stdout")
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.replacement)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func awaitMark(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), scriptLimit)
	defer cancel()
	c, err := client.New(ts.Getenv("TIDEMARK_SERVER"))
	ts.Check(err)
	defer c.Close()
	for {
		d, err := c.Describe(ctx, args[0])
		if ctx.Err() != nil {
			ts.Fatalf("it never came to it; the last answer was %+v, %v", d, err)
		}
		for _, s := range d.Subscribers {
			if s.Name == args[1] && (len(args) == 2 || s.Mark.String() == args[2]) {
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}
