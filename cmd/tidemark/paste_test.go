package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// pasteCommands are commands that run the examples of a page of the documentation.
//
//	paste FILE                  runs the examples with curl, one after the other, against TIDEMARK_SERVER
//	paste FILE before HEADING   runs those before a heading
//	paste FILE from HEADING     runs those after it
//	paste-together FILE         runs each example in a shell of its own, as in different terminals
func pasteCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"paste":          func(ts *testscript.TestScript, _ bool, args []string) { paste(ts, args, false) },
		"paste-together": func(ts *testscript.TestScript, _ bool, args []string) { paste(ts, args, true) },
	}
}

// pasteShell defines curl so that check can compare the answers with the statuses and the texts that the page names. An
// answer is a success where the page doesn't name a status. With TIDEMARK_TOKEN, it sends that where the page sends no
// credential.
const pasteShell = `set -eu
curl() {
  local credential=()
  if [[ ${TIDEMARK_TOKEN:-} && "$*" != *Authorization:* ]]; then credential=(--header "Authorization: Bearer $TIDEMARK_TOKEN"); fi
  command curl --silent --show-error --dump-header headers "${credential[@]}" "$@" | tee -a answer
  local code=${PIPESTATUS[0]}
  ((code == 28)) || return "$code" # 28: the page ends a stream after a time, with -m
}
check() {
  local at=$1 want=$2 rest status text
  while read -r _ status _; do
    case $status in
      $want) ;;
      *) echo "$at: answered $status, not $want" >&2; exit 1 ;;
    esac
  done < <(grep '^HTTP/' headers)
  rest=$(tr -d '\0' <answer)
  shift 2
  for text; do
    case $rest in
      *"$text"*) rest=${rest#*"$text"} ;;
      *) echo "$at: the answer lacks $text" >&2; exit 1 ;;
    esac
  done
  rm headers answer
}
`

func paste(ts *testscript.TestScript, args []string, together bool) {
	file := args[0]
	page, err := os.ReadFile(ts.MkAbs(file))
	ts.Check(err)
	scripts := examplesWithCurl(filepath.Base(file), string(page))
	if len(args) == 3 {
		before, _, found := strings.Cut(string(page), "\n"+args[2]+"\n")
		if !found {
			ts.Fatalf("%s has no heading %q", file, args[2])
		}
		n := len(examplesWithCurl(filepath.Base(file), before))
		scripts = map[string][]string{"before": scripts[:n], "from": scripts[n:]}[args[1]]
	}
	if len(scripts) == 0 {
		ts.Fatalf("%s has no such example with curl", file)
	}
	if !together {
		scripts = []string{strings.Join(scripts, "")}
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptLimit)
	defer cancel()
	failures := make([]error, len(scripts))
	var shells sync.WaitGroup
	for i, script := range scripts {
		dir, err := os.MkdirTemp(ts.Getenv("WORK"), "paste-")
		ts.Check(err)
		script = strings.ReplaceAll(script, "/tmp/", dir+"/")
		script = strings.ReplaceAll(script, "bin/tidemark ", "tidemark ")
		script = strings.NewReplacer("unix:", "unix:../", "=tidemark-tutorial/", "=../tidemark-tutorial/").Replace(script)
		script = strings.ReplaceAll(script, "tmk_some-key", cmp.Or(ts.Getenv("TIDEMARK_TOKEN"), "tmk_some-key"))
		for port, url := range map[string]string{"8080": ts.Getenv("TIDEMARK_SERVER"), "8081": ts.Getenv("ADMIN")} {
			script = regexp.MustCompile(`(http://)?(127\.0\.0\.1|localhost):`+port).ReplaceAllString(script, url)
		}
		shells.Go(func() {
			shell := exec.CommandContext(ctx, "bash", "-c", pasteShell+script)
			shell.Dir, shell.Env = dir, environOf(ts)
			if out, err := shell.CombinedOutput(); err != nil {
				failures[i] = fmt.Errorf("%w, printing:\n%s", err, out)
			}
		})
	}
	shells.Wait()
	for _, err := range failures {
		ts.Check(err)
	}
}

var (
	shellBlock   = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	statusRemark = regexp.MustCompile(`(?:^|\s)# (\d{3})\b`)
	textRemark   = regexp.MustCompile(`(?m)(?:^|\s)# (?:\d{3} )?([{["].*(?:\n#  .*)*)`)
	continued    = regexp.MustCompile(`\n# +`)
)

// examplesWithCurl returns the page's blocks of shell that call curl, with a check after each call. A remark at its end
// or below it says what is answered: a status, JSON or a part of it, with "…" for any text, or both. Lines that begin
// with two spaces continue it.
func examplesWithCurl(name, page string) []string {
	var scripts []string
	for _, at := range shellBlock.FindAllStringSubmatchIndex(page, -1) {
		block := page[at[2]:at[3]]
		if !strings.HasPrefix(block, "API=") && !regexp.MustCompile(`(?m)^(.*\()?curl `).MatchString(block) {
			continue
		}
		first := 1 + strings.Count(page[:at[2]], "\n")
		lines := strings.Split(block, "\n")
		var script strings.Builder
		call := ""
		for i, line := range lines {
			script.WriteString(line + "\n")
			call += line
			if command, _, _ := strings.Cut(call, " # "); strings.HasSuffix(command, "\\") ||
				!strings.HasPrefix(command, "#") && strings.Count(command, "'")%2 == 1 {
				continue // the command goes on in the next line
			}
			calls := !strings.HasPrefix(call, "#") && strings.Contains(call, "curl ")
			call = ""
			if !calls {
				continue
			}
			remark := line
			for _, next := range lines[i+1:] {
				if !strings.HasPrefix(next, "#") {
					break
				}
				remark += "\n" + next
			}
			want := "2??"
			if status := statusRemark.FindStringSubmatch(remark); status != nil {
				want = status[1]
			}
			fmt.Fprintf(&script, "check %s:%d '%s'", name, first+i, want)
			if text := textRemark.FindStringSubmatch(remark); text != nil {
				for part := range strings.SplitSeq(continued.ReplaceAllString(text[1], ""), "…") {
					fmt.Fprintf(&script, " '%s'", strings.ReplaceAll(part, "'", `'\''`))
				}
			}
			script.WriteString("\n")
		}
		scripts = append(scripts, script.String())
	}
	return scripts
}

func TestExamplesWithCurl(t *testing.T) {
	t.Parallel()
	page := "text\n```sh\nmake run\n```\n```sh\nA=1\ncurl a # 201, or so\ncurl b\n# 404 {\"a\":…,\n#    \"b\":1}\n\n# 500\ncurl c \\\n -d '{\n}'\n```\n"
	require.Equal(t, []string{
		"A=1\ncurl a # 201, or so\ncheck p:7 '201'\ncurl b\ncheck p:8 '404' '{\"a\":' ',\"b\":1}'\n" +
			"# 404 {\"a\":…,\n#    \"b\":1}\n\n# 500\ncurl c \\\n -d '{\n}'\ncheck p:15 '2??'\n\n",
	}, examplesWithCurl("p", page))
}
