package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// drawCharts draws charts, and returns the texts of each on its canvas. A text that is cut ends with "|".
const drawCharts = `(async () => {
	const {html, render} = await import("/console/assets/lib/preact.js");
	const {Chart, units} = await import("/console/assets/chart.js");
	const drawn = new Map();
	const fill = CanvasRenderingContext2D.prototype.fillText;
	CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
		const width = this.measureText(text).width, at = this.getTransform().transformPoint({x, y}).x;
		const left = at - {left: 0, right: 1, center: .5, start: 0, end: 1}[this.textAlign] * width;
		const texts = drawn.get(this.canvas) ?? drawn.set(this.canvas, []).get(this.canvas);
		texts.push(text + (left < -1 || left + width > this.canvas.width + 1 ? "|" : ""));
		return fill.call(this, text, x, y);
	};
	const day = Date.UTC(2026, 10, 23), hour = 3600000;
	const label = (t) => new Intl.DateTimeFormat("en", {timeZone: "UTC", hour: "2-digit", minute: "2-digit",
		hourCycle: "h23"}).format(t);
	const times = [0, 1, 2, 3].map((i) => day + i * 60000);
	const lines = (...values) => [{label: "a", color: "one", values}];
	const charts = {
		tickets: {unit: units.count, lines: lines(0, 3, 7, 8)}, few: {unit: units.count, lines: lines(0, 1, 1, 1)},
		rates: {unit: units.perSecond, lines: lines(0, 0.1, 0.2, 0.05)},
		waits: {unit: units.millis, lines: lines(0, 5e3, 6e4, 1.4e5)},
		bytes: {unit: units.bytes, lines: lines(0, 1e6, 2e6, 5e6)},
		latencies: {unit: units.millis, log: true, lines: lines(0.3, 1, 90, 0)},
		long: {unit: units.millis, log: true, lines: lines(2e3, 5e4, 1e5, 2e5)},
		none: {unit: units.millis, log: true, lines: lines(null, null, null, null)},
		hours: {unit: units.count, lines: lines(5, 1, 2), times: [0, 1, 2].map((i) => day + (i + 22) * hour), step: 3600,
			utc: true, axis: label},
	};
	const boxes = Object.entries(charts).map(([title, chart]) => {
		const box = document.body.appendChild(document.createElement("div"));
		box.style.width = "400px";
		render(html` + "`<${Chart} title=${title} times=${times} ...${chart} />`" + `, box);
		return [title, box];
	});
	const frame = () => new Promise(requestAnimationFrame);
	for (let n = 0; n < 10 && boxes.some(([, box]) => !drawn.has(box.querySelector("canvas"))); n++) await frame();
	await frame();
	return JSON.stringify(Object.fromEntries(boxes.map(([title, box]) =>
		[title, [...new Set(drawn.get(box.querySelector("canvas")))]])));
})()`

// TestConsoleCharts reads the axes of charts: their labels are exact, have the unit, differ and are not cut.
func TestConsoleCharts(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	w := browser(t, cuts)(s.console)
	w.sees("h1", "Overview")
	var drawn map[string][]string
	require.NoError(t, json.Unmarshal(
		[]byte(read(w, chromedp.Evaluate[string](drawCharts, chromedp.EvalAwaitPromise))), &drawn))
	for chart, texts := range drawn {
		for _, text := range texts {
			require.NotContains(t, text, "|", chart)
		}
	}
	for chart, want := range map[string][]string{
		"tickets": {"0", "2", "4", "6", "8"}, "few": {"0", "1"},
		"rates": {"0/s", "0.05/s", "0.1/s", "0.15/s", "0.2/s"},
		"waits": {"0", "1 min", "2 min"}, "bytes": {"0", "2 MiB", "4 MiB"},
		"latencies": {"100 µs", "1 ms", "10 ms", "100 ms"},
		"long":      {"1 s", "10 s", "100 s", "1K s"}, "hours": {"15:00", "18:00", "21:00", "00:00"},
	} {
		require.Subset(t, drawn[chart], want, "%s: %v", chart, drawn)
	}
	require.NotContains(t, drawn["few"], "0.5")
}

// holdHistory makes a page wait with its requests for the points of the last hour until it calls answerHistory.
const holdHistory = `{
	const send = fetch, {promise, resolve} = Promise.withResolvers();
	globalThis.answerHistory = () => resolve();
	globalThis.fetch = async (url, init) => {
		if (String(url).includes("/v1/history")) await promise;
		return send(url, init);
	};
}`

// TestConsoleHoldsThePlaceOfCharts loads pages whose charts arrive late: nothing below them moves then, so that a click
// there isn't lost.
func TestConsoleHoldsThePlaceOfCharts(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.call(http.MethodPut, "queues/duel", object{"match": object{"function": "criteria"}})
	w := browser(t, cuts)(s.console)
	w.do(chromedp.EmulateViewport(1280, 900), func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: holdHistory})
		return chromedp.Void{}, err
	})
	for path, below := range map[string][2]string{
		"":            {"#servers", `.figures, .fine, .problems`},
		"queues/duel": {"#waiting", `.figures`},
	} {
		top := chromedp.Evaluate[float64](`document.querySelector("` + below[0] + `").offsetTop`)
		w.do(chromedp.Navigate(s.console+"/console/"+path), chromedp.WaitVisible(chromedp.CSS(below[0])),
			chromedp.WaitVisible(chromedp.CSS(below[1])))
		before := read(w, top)
		w.do(chromedp.Evaluate[chromedp.Void](`answerHistory()`),
			chromedp.WaitVisible(chromedp.CSS(`[aria-label="The last hour"]:not([aria-busy=true])`)))
		require.InDelta(t, before, read(w, top), 1, path)
	}
}
