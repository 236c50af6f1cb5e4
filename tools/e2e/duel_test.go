package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// plays enters a name and searches for an opponent.
func (w window) plays(name string) {
	w.t.Helper()
	w.do(chromedp.WaitVisible(chromedp.CSS(`#lobby`)),
		chromedp.SendKeys(chromedp.CSS(`#play [name=name]`), name+kb.Enter),
		chromedp.WaitNotVisible(chromedp.CSS(`#lobby`)))
}

// round plays a round with two windows.
func round(ann, ben window, hers, his string) {
	ann.t.Helper()
	ann.click(hers)
	ann.sees("p", "You have chosen "+hers)
	ben.sees("p", "Ann has chosen. Choose!")
	ben.click(his)
}

// TestDuel is an evening of two players, with the faults that a page meets.
func TestDuel(t *testing.T) {
	t.Parallel()
	e := startExample(t, "duel")
	open := browser(t, cuts)
	ann, ben := open(e.url), open(e.url)
	ann.sees("p[@id='state']", "connected")
	ann.accessible("the lobby")

	ann.plays("Ann")
	ann.sees("p", "You are the only player who searches.")
	ann.sees("p", "You accept opponents from 1100 to 1300.")
	ann.accessible("the search")
	ann.click("Cancel")
	ann.do(chromedp.WaitVisible(chromedp.CSS(`#lobby`)))
	ann.click("Play")
	ann.sees("h2", "Searching for an opponent")
	ann.do(chromedp.Reload())
	ann.sees("h2", "Searching for an opponent")
	ann.sees("p", "You are the only player who searches.") // it is the same ticket

	ben.plays("Ben")
	ann.sees("p", "Choose!")
	ann.sees("b", "Ben")
	ben.sees("b", "Ann")
	round(ann, ben, "rock", "scissors")
	ann.sees("p", "You win the round. Choose!")
	ben.sees("p", "Ann wins the round. Choose!")

	round(ann, ben, "paper", "paper")
	ben.sees("p", "A draw. Choose!")
	ann.sees("p", "A draw. Choose!")

	// Ann's page is loaded again when she has chosen, and the service restarts before Ben has.
	ann.click("scissors")
	ann.do(chromedp.Reload())
	ann.sees("p", "You have chosen scissors")
	ann.sees("li", "won: rock against scissors")
	ben.sees("p", "Ann has chosen. Choose!")
	e.end()
	ben.sees("p[@id='state']", "The service does not answer")
	ben.click("paper")
	e.start()
	ann.sees("p", "You win the match!")
	ben.sees("p", "Ann wins the match.")
	ann.sees("li", "won: scissors against paper")
	ann.accessible("the result")
	require.Equal(t, "Rounds won: you 0, Ann 2", read(ben, chromedp.Evaluate[string](`wins.ariaLabel`)))

	ben.do(chromedp.Reload())
	ben.sees("p", "Ann wins the match.")
	ben.click("Play again")
	ann.click("Play again")
	ben.sees("p", "Choose!")
	ann.accessible("a round")
	ann.click("Leave")
	ann.do(chromedp.WaitVisible(chromedp.CSS(`#lobby`)))
	ben.sees("p", "Ann has left. You win!")
}

// TestDuelWithoutOpponent: a player whose opponent has closed the page wins after a while. They are tabs of one browser,
// which share its storage and the connection.
func TestDuelWithoutOpponent(t *testing.T) {
	t.Parallel()
	e := startExample(t, "duel")
	profile := browser(t, cuts)("about:blank")
	open := func() (window, func()) {
		ctx, closeTab := chromedp.NewContext(profile.ctx)
		t.Cleanup(closeTab)
		return openTab(ctx, t, e.url, cuts), closeTab
	}
	ann, closeTab := open()
	ben, _ := open()
	ann.plays("Ann")
	ben.plays("Ben")
	ann.sees("p", "Choose!")
	ben.click("rock")
	ann.sees("p", "Ben has chosen. Choose!")
	closeTab()
	ben.sees("p", "Ann did not answer in time. You win!")
}

// TestDuelAfterSleep: a page whose ticket expired early, because the service didn't hear from it, goes on searching.
func TestDuelAfterSleep(t *testing.T) {
	t.Parallel()
	e := startExample(t, "duel")
	ann := browser(t, cuts)(e.url)
	ann.plays("Ann")
	ann.sees("p", "You are the only player who searches.")
	call := func(method, path, body string, status int) {
		r, err := http.NewRequestWithContext(t.Context(), method, e.service+"/v1/tickets"+path, strings.NewReader(body))
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode)
	}
	call(http.MethodPost, "", `{"queue":"duel","id":"asleep","ttl":"3s"}`, http.StatusCreated)
	const ticket = `JSON.parse(sessionStorage.duel).ticket`
	first := read(ann, chromedp.Evaluate[string](ticket))
	ann.do(chromedp.Evaluate[chromedp.Void](
		`sessionStorage.duel = JSON.stringify({...JSON.parse(sessionStorage.duel), ticket: 'asleep'})`), chromedp.Reload())
	call(http.MethodDelete, "/"+first, "", http.StatusNoContent) // or else the next ticket would meet it
	ann.do(chromedp.Poll[chromedp.Void](ticket + ` !== 'asleep'`))
	ann.sees("h2", "Searching for an opponent")
	require.Regexp(t, `^[0-9a-f-]{36}$`, read(ann, chromedp.Evaluate[string](ticket)))
}

// TestDuelShowsNames: a name is text, and what else anybody publishes is no move.
func TestDuelShowsNames(t *testing.T) {
	t.Parallel()
	e := startExample(t, "duel")
	open := browser(t, cuts)
	ann, ben := open(e.url), open(e.url)
	ann.plays("<b>Ann</b>")
	ben.plays("Ben")
	ben.sees("b", "<b>Ann</b>")
	ann.sees("p", "Choose!")
	channel := read(ben, chromedp.Evaluate[string](`JSON.parse(sessionStorage.duel).assignment.connection`))
	publishAll(t, e.service, channel, oddContents...)
	ben.click("rock")
	ann.sees("p", "Ben has chosen. Choose!")
	ann.click("rock")
	ben.sees("p", "A draw. Choose!")
}

// TestDuelRules applies messages to a match, whose over and wins are as wanted then. A message is its time in seconds,
// its player, its kind, and its round; the seals are of the player's rock in round 1, with the salt x, and a copy is the
// other player's seal.
func TestDuelRules(t *testing.T) {
	t.Parallel()
	w := browser(t, cuts)(startExample(t, "duel").url)
	const hello = "0 0 hello 0, 1 1 hello 0, "
	for name, v := range map[string]struct{ messages, want string }{
		"a draw":                         {hello + "2 0 seal 1, 3 1 seal 1, 4 0 rock 1, 5 1 rock 1", "2 none 0:0"},
		"a claim after the other's time": {hello + "2 0 seal 1, 22 0 claim 1", "1 0 by time 0:0"},
		"a claim before":                 {hello + "2 0 seal 1, 21 0 claim 1", "1 none 0:0"},
		"a claim without a move":         {hello + "90 0 claim 1", "1 none 0:0"},
		"a claim of the one who is late": {hello + "2 0 seal 1, 90 1 claim 1", "1 none 0:0"},
		"a claim when both have moved":   {hello + "2 0 seal 1, 3 1 seal 1, 90 0 claim 1", "1 none 0:0"},
		"a claim on who never joined":    {"0 1 hello 0, 20 1 claim 0", "0 1 by time 0:0"},
		"a claim on who never opens":     {hello + "2 0 seal 1, 3 1 seal 1, 4 1 rock 1, 24 1 claim 1", "1 1 by time 0:0"},
		"another choice than the sealed": {hello + "2 0 seal 1, 3 1 seal 1, 4 0 rock 1, 5 1 paper 1", "1 none 0:0"},
		"a copy of the other's seal":     {hello + "2 0 seal 1, 3 1 copy 1, 4 0 rock 1, 5 1 rock 1", "1 none 0:0"},
		"a seal of an earlier round": {hello + "2 0 seal 1, 3 1 seal 1, 4 0 rock 1, 5 1 rock 1, 6 0 seal 2, 7 1 seal 2, " +
			"8 0 rock 2, 9 1 rock 2", "2 none 0:0"},
		"a choice before the other's seal": {hello + "2 0 seal 1, 3 0 rock 1, 4 1 seal 1, 5 1 rock 1", "1 none 0:0"},
		"a move of another round":          {hello + "2 0 seal 2, 3 1 seal 1", "1 none 0:0"},
		"a second move":                    {hello + "2 0 seal 1, 19 0 seal 1, 22 0 claim 1", "1 0 by time 0:0"},
		"a player leaves":                  {hello + "2 0 leave 0, 3 1 leave 0", "1 1 left 0:0"},
		"another player":                   {hello + "2 2 leave 0", "1 none 0:0"},
	} {
		messages, err := json.Marshal(strings.Split(v.messages, ", "))
		require.NoError(t, err)
		got := read(w, chromedp.Evaluate[string](fmt.Sprintf(`(async () => {
			const {apply, begin, choices, seal} = await import('./game.js');
			const match = begin();
			for (const message of %s) {
				const [at, player, word, round] = message.split(' ');
				const kind = choices.includes(word) ? 'open' : word === 'copy' ? 'seal' : word;
				const sealed = await seal(word === 'copy' ? 1 - player : player, 1, 'rock', 'x');
				const content = {player: Number(player), kind, round: Number(round), name: 'A', skill: 1, sealed, choice: word, salt: 'x'};
				await apply(match, {at: at * 1000, content});
			}
			const {round, over, wins} = match;
			const end = !over ? 'none' : over.winner + (over.why === 'time' ? ' by time' : ' ' + over.why);
			return round + ' ' + end + ' ' + wins.join(':');
		})()`, messages), chromedp.EvalAwaitPromise))
		require.Equal(t, v.want, got, name)
	}
	require.Equal(t, "paper rock, rock scissors, scissors paper", read(w, chromedp.Evaluate[string](`(async () => {
		const {apply, begin, choices, seal} = await import('./game.js');
		const won = [];
		for (const a of choices) for (const b of choices) {
			const match = begin();
			for (const kind of ['hello', 'seal', 'open']) for (const [player, choice] of [a, b].entries()) {
				const round = kind === 'hello' ? 0 : 1;
				const sealed = await seal(player, round, choice, 'x');
				await apply(match, {at: 0, content: {player, kind, round, name: 'A', skill: 1, sealed, choice, salt: 'x'}});
			}
			if (match.wins[0]) won.push(a + ' ' + b);
		}
		return won.sort().join(', ');
	})()`, chromedp.EvalAwaitPromise)))
}
