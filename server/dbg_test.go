package server_test
import ("testing";"fmt";"log/slog")
func dump(t *testing.T, h *harness) { t.Cleanup(func(){ if t.Failed() { h.logs.mu.Lock(); for _, r := range h.logs.records { s := r.Time.Format("05.000000")+" "+r.Message; r.Attrs(func(a slog.Attr) bool { s += fmt.Sprint(" ", a); return true }); fmt.Println(s) }; h.logs.mu.Unlock() } }) }
