package grpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// people are the principals of a service that isn't open, by their credentials, and the revoked ones.
type people struct {
	mu      sync.Mutex
	known   map[string]*access.Principal
	revoked map[*access.Principal]bool
	changed func()
	asked   int // number of authentications of a credential
}

func (p *people) Accepts(string) bool { return true }

func (p *people) Authenticate(_ context.Context, credential string) (*access.Principal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if who := p.known[credential]; who != nil {
		return who, nil
	}
	return nil, access.ErrInvalidCredential
}

func (p *people) Revoked(who *access.Principal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revoked[who]
}

func (p *people) Notify(changed func()) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = changed
	return func() {}
}

func (p *people) revoke(credential string) {
	p.mu.Lock()
	p.revoked[p.known[credential]] = true
	changed := p.changed
	p.mu.Unlock()
	if changed != nil { // the guard watches during requests
		changed()
	}
}

// add adds a principal.
func (p *people) add(t testing.TB, credential string, who access.Principal, grants string) {
	t.Helper()
	var err error
	who.Grants, err = access.ParseGrants([]byte(grants))
	require.NoError(t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[credential] = &who
}

func apiKey(id string) access.Principal { return access.Principal{Kind: access.APIKey, Credential: id} }

func userOf(subject string) access.Principal {
	return access.Principal{Kind: access.User, Subject: subject}
}

const ticketsOnly = `[{"actions":["ticket"]}]`

// closed is a closed service with the users ann and ben, who have tickets, and a back end.
func closed(t testing.TB) (*harness, *people) {
	t.Helper()
	keys, err := receipt.NewKeyring(bytes.Repeat([]byte{1}, receipt.MinKeyBytes))
	require.NoError(t, err)
	tokens := access.NewTicketTokens(access.TicketTokenOptions{Keys: keys, TTL: time.Hour, Unique: func(id string) bool { return id[0] == 't' }})
	p := &people{known: map[string]*access.Principal{}, revoked: map[*access.Principal]bool{}}
	m := &matches{tickets: map[string]*matchmaking.Ticket{}, token: tokens.Offer}
	guard, err := access.New(access.Options{
		Authenticators: []access.Authenticator{ticketTokens{tokens}, p}, Revoked: p,
		Tickets: access.Tickets{Owners: m, Channels: matchmaking.ChannelPrefix, Subscriber: matchmaking.Subscriber},
	})
	require.NoError(t, err)
	p.add(t, "ann", userOf("ann"), ticketsOnly)
	p.add(t, "ben", userOf("ben"), ticketsOnly)
	p.add(t, "back", apiKey("back"), ticketsOnly)
	return serve(t, m, guard), p
}

// ticketTokens accepts the tokens that holders accepts, and no others.
type ticketTokens struct{ *access.TicketTokens }

// as returns a context with a credential, and with metadata, alternating names and values.
func (h *harness) as(credential string, kv ...string) context.Context {
	return metadata.AppendToOutgoingContext(h.t.Context(), append([]string{"authorization", "Bearer " + credential}, kv...)...)
}

// call calls any method with an empty message, and returns the code of its answer, or of the first message of a stream.
func call(ctx context.Context, conn grpcgo.ClientConnInterface, m protoreflect.MethodDescriptor) codes.Code {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	ask, answer := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	if !m.IsStreamingServer() {
		return status.Code(conn.Invoke(ctx, path, ask, answer))
	}
	stream, err := conn.NewStream(ctx, &grpcgo.StreamDesc{ServerStreams: true, ClientStreams: m.IsStreamingClient()}, path)
	if err == nil {
		err = stream.SendMsg(ask)
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = stream.RecvMsg(answer)
	}
	return status.Code(err)
}

// needed is the action required by each service, or method.
func needed(m protoreflect.MethodDescriptor) access.Action {
	switch service := m.Parent().Name(); {
	case service == "Health":
		return ""
	case service == "ServerReflection":
		return access.Any
	case service == "QueryService":
		return access.Queue
	case service == "BackendService":
		return access.Direct
	case strings.HasSuffix(string(m.Name()), "Backfill"):
		return access.Backfill
	}
	return access.Ticket
}

// TestEveryMethodIsClosed calls every method by every protocol without a credential, without grants, with all other
// grants, and with the required grant.
func TestEveryMethodIsClosed(t *testing.T) {
	t.Parallel()
	h, p := closed(t)
	p.add(t, "nothing", apiKey("n"), `[]`)
	actions := []string{"publish", "subscribe", "describe", "ticket", "queue", "direct", "backfill", "admin"}
	for i, a := range actions {
		others := slices.Delete(slices.Clone(actions), i, i+1)
		p.add(t, "only-"+a, apiKey(a), `[{"actions":["`+a+`"]}]`)
		p.add(t, "not-"+a, apiKey("n"+a), `[{"actions":["`+strings.Join(others, `","`)+`"]}]`)
	}
	h.matches.tickets["x"] = &matchmaking.Ticket{ID: "x"}
	refused := []codes.Code{codes.Unauthenticated, codes.PermissionDenied}
	methods := 0
	for _, protocol := range servertest.Protocols {
		conn := h.dial(protocol)
		for name := range h.served.GetServiceInfo() {
			service, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
			require.NoError(t, err)
			all := service.(protoreflect.ServiceDescriptor).Methods()
			for i := range all.Len() {
				m, needs := all.Get(i), string(needed(all.Get(i)))
				at := protocol.Name + " " + string(m.FullName())
				methods++
				if needs == "" {
					require.NotContains(t, refused, call(t.Context(), conn, m), at)
					continue
				}
				require.Equal(t, codes.Unauthenticated, call(t.Context(), conn, m), at)
				if i == 0 { // more of them would count as guesses
					require.Equal(t, codes.Unauthenticated, call(h.as("unknown"), conn, m), at)
				}
				require.Equal(t, codes.PermissionDenied, call(h.as("nothing"), conn, m), at)
				if needs == string(access.Any) {
					needs = "queue"
				} else {
					require.Equal(t, codes.PermissionDenied, call(h.as("not-"+needs), conn, m), at)
				}
				require.NotContains(t, refused, call(h.as("only-"+needs), conn, m), at)
			}
		}
	}
	require.Equal(t, 22*len(servertest.Protocols), methods)
}

// created creates a ticket with a credential, and returns its ID and the token of the answer.
func (h *harness) created(f openmatch.FrontendServiceClient, credential string, kv ...string) (id, token string) {
	h.t.Helper()
	var header metadata.MD
	created, err := f.CreateTicket(h.as(credential, kv...),
		&openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}}, grpcgo.Header(&header))
	require.NoError(h.t, err)
	return created.GetId(), strings.Join(header.Get("Tidemark-Ticket-Token"), "")
}

// reaches returns the result codes of the calls about a ticket: of GetTicket, WatchAssignments, DeindexTicket and
// DeleteTicket.
func (h *harness) reaches(f openmatch.FrontendServiceClient, credential, id string) (all [4]codes.Code) {
	h.t.Helper()
	ctx := h.as(credential)
	_, err := f.GetTicket(ctx, &openmatch.GetTicketRequest{TicketId: id})
	all[0] = status.Code(err)
	watch, err := f.WatchAssignments(ctx, &openmatch.WatchAssignmentsRequest{TicketId: id})
	if err == nil {
		_, err = watch.Recv()
	}
	all[1] = status.Code(err)
	_, err = f.DeindexTicket(ctx, &openmatch.DeindexTicketRequest{TicketId: id})
	all[2] = status.Code(err)
	_, err = f.DeleteTicket(ctx, &openmatch.DeleteTicketRequest{TicketId: id})
	all[3] = status.Code(err)
	return all
}

var nothingAtAll = [4]codes.Code{codes.PermissionDenied, codes.PermissionDenied, codes.PermissionDenied, codes.PermissionDenied}

// TestTicketsOfOthers checks that other users' tickets are inaccessible, and indistinguishable from nonexistent ones.
// Back ends can access all.
func TestTicketsOfOthers(t *testing.T) {
	t.Parallel()
	h, p := closed(t)
	p.add(t, "cat", userOf("Ann"), ticketsOnly)
	p.add(t, "ann2", access.Principal{Kind: access.Session, Subject: "ann"}, ticketsOnly)
	for _, protocol := range servertest.Protocols {
		f := h.frontend(protocol)
		id, token := h.created(f, "ann", "tidemark-ticket-id", "Ann-1")
		require.Equal(t, "Ann-1", id)
		require.Empty(t, token, "the ticket is her own")
		require.Equal(t, "ann", h.matches.get(id).Owner)
		h.matches.assign(id, "host:1")
		for _, other := range []string{"ben", "cat"} {
			for _, spelt := range []string{id, "ann-1", "Ann-1 ", "Ann-1\x00", "Ann%2D1", "./Ann-1", "none"} {
				require.Equal(t, nothingAtAll, h.reaches(f, other, spelt), "%s %q", protocol.Name, spelt)
			}
		}
		for _, spelt := range []string{"ann-1", "none"} {
			require.Equal(t, nothingAtAll, h.reaches(f, "ann", spelt))
		}
		require.Equal(t, [4]codes.Code{}, h.reaches(f, "ann2", id), "her session")
		require.Equal(t, nothingAtAll, h.reaches(f, "ann", id), "it is gone")
		require.Equal(t, [4]codes.Code{codes.NotFound, codes.NotFound, codes.OK, codes.OK}, h.reaches(f, "back", id))
	}
}

// TestTokensOfTickets: each token gives access only to its own ticket, in the life that it was issued for.
func TestTokensOfTickets(t *testing.T) {
	t.Parallel()
	h, _ := closed(t)
	for _, protocol := range servertest.Protocols {
		f := h.frontend(protocol)
		own, token := h.created(f, "back")
		other, _ := h.created(f, "back")
		hers, _ := h.created(f, "ann")
		require.NotEmpty(t, token)
		require.Equal(t, nothingAtAll, h.reaches(f, token, other))
		require.Equal(t, nothingAtAll, h.reaches(f, token, hers))
		_, err := f.CreateTicket(h.as(token), &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		require.Equal(t, codes.Unauthenticated, h.reaches(f, token+"A", own)[0])
		h.matches.assign(own, "host:1")
		require.Equal(t, [4]codes.Code{}, h.reaches(f, token, own), protocol.Name)

		named, early := h.created(f, "back", "tidemark-ticket-id", "named")
		_, err = f.GetTicket(h.as(early), &openmatch.GetTicketRequest{TicketId: named})
		require.NoError(t, err)
		h.matches.set(func() { delete(h.matches.tickets, named) })
		require.Equal(t, nothingAtAll, h.reaches(f, early, named), "it is gone")
		_, later := h.created(f, "back", "tidemark-ticket-id", named)
		require.Equal(t, nothingAtAll, h.reaches(f, early, named), "it is of a later life")
		_, err = f.GetTicket(h.as(later), &openmatch.GetTicketRequest{TicketId: named})
		require.NoError(t, err)
		h.matches.set(func() { delete(h.matches.tickets, named) })
	}
}

// TestTicketsOfQueues: a grant for a queue creates and reads tickets in no other.
func TestTicketsOfQueues(t *testing.T) {
	t.Parallel()
	h, p := closed(t)
	p.add(t, "duel", apiKey("duel"), `[{"actions":["ticket","queue"],"queues":["duel"]}]`)
	h.matches.set(func() {
		d, err := matchmaking.ParseDefinition("race", []byte(`{"profile":{"name":"p","pools":[{"name":"racers","tagPresentFilters":[{"tag":"r"}]}]}}`))
		require.NoError(t, err)
		h.matches.definitions = []matchmaking.Definition{d}
	})
	racers := &openmatch.Pool{Name: "racers", TagPresentFilters: []*openmatch.TagPresentFilter{{Tag: "r"}}}
	for _, protocol := range servertest.Protocols {
		f, q := h.frontend(protocol), openmatch.NewQueryServiceClient(h.dial(protocol))
		for queue, want := range map[string]codes.Code{"duel": codes.OK, "race": codes.PermissionDenied, "Duel": codes.PermissionDenied, "": codes.PermissionDenied} {
			created := h.matches.created
			_, err := f.CreateTicket(h.as("duel", "tidemark-queue", queue), &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
			require.Equal(t, want, status.Code(err), "%s %s", protocol.Name, queue)
			require.Equal(t, want == codes.OK, h.matches.created > created)
			for _, pool := range []*openmatch.Pool{{}, racers} {
				tickets, err := q.QueryTickets(h.as("duel", "tidemark-queue", queue), &openmatch.QueryTicketsRequest{Pool: pool})
				if err == nil {
					_, err = tickets.Recv()
				}
				if errors.Is(err, io.EOF) {
					err = nil
				}
				require.Equal(t, want, status.Code(err), "%s %s", protocol.Name, queue)
			}
		}
	}
}

// TestWatchesEndWithTheirCredential checks that watches end at once when their credential is revoked or expires.
func TestWatchesEndWithTheirCredential(t *testing.T) {
	t.Parallel()
	h, p := closed(t)
	for _, protocol := range servertest.Protocols {
		f := h.frontend(protocol)
		id, _ := h.created(f, "ann")
		p.add(t, "lost", userOf("ann"), ticketsOnly)
		watch := h.watchIn(h.as("lost"), f, id)
		h.awaitWaiting(1)
		other := h.watchIn(h.as("ann"), f, id)
		h.awaitWaiting(2)
		p.revoke("lost")
		isError(t, watch.ends(t), codes.Unauthenticated, access.ErrRevoked.Detail)
		h.matches.assign(id, "host:1")
		require.Equal(t, "host:1", other.receives(t).GetConnection())
		h.matches.set(func() { delete(h.matches.tickets, id); h.matches.wake() })
		require.Equal(t, codes.NotFound, status.Code(other.ends(t)))

		brief := userOf("ann")
		brief.Expires = time.Now().Add(time.Second)
		p.add(t, "brief", brief, ticketsOnly)
		id, _ = h.created(f, "ann")
		h.matches.assign(id, "host:1")
		held := h.watchIn(h.as("brief"), f, id)
		require.Equal(t, "host:1", held.receives(t).GetConnection())
		isError(t, held.ends(t), codes.Unauthenticated, access.ErrExpired.Detail)
	}
	id, _ := h.created(h.frontend(servertest.Native), "ann")
	p.add(t, "lost", userOf("ann"), ticketsOnly)
	response := make(chan string)
	go func() {
		got := h.sendAs("lost", "GET", "/v1/frontendservice/tickets/"+id+"/assignments", "")
		body, _ := io.ReadAll(got.Body) // shown on failure
		response <- strings.TrimSpace(got.Status + string(body))
	}()
	h.awaitWaiting(1)
	p.revoke("lost")
	require.Equal(t, `401 Unauthorized{"error":{"grpc_code":16,"http_code":401,`+
		`"message":"the credentials were revoked","http_status":"Unauthorized"}}`, <-response)
}

// TestALateMessage: a call has no effect if its credential was revoked before its message arrived.
func TestALateMessage(t *testing.T) {
	t.Parallel()
	h, p := closed(t)
	p.add(t, "lost", userOf("ann"), ticketsOnly)
	late := &grpcgo.StreamDesc{ClientStreams: true} // so that the message isn't sent with the headers
	stream, err := h.dial(servertest.Native).NewStream(h.as("lost"), late, openmatch.FrontendService_CreateTicket_FullMethodName)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.asked == 1
	}, servertest.Patience, servertest.Step)
	p.revoke("lost")
	require.NoError(t, stream.SendMsg(&openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}}))
	require.NoError(t, stream.CloseSend())
	isError(t, stream.RecvMsg(new(openmatch.Ticket)), codes.Unauthenticated, access.ErrRevoked.Detail)
}

// sendAs calls a JSON path with a credential.
func (h *harness) sendAs(credential, method, path, body string) *http.Response {
	request, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	require.NoError(h.t, err)
	if credential != "" {
		request.Header.Set("Authorization", "Bearer "+credential)
	}
	response, err := servertest.Client(h.t, false).Do(request)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, response.Body.Close()) })
	return response
}

// TestCredentialsInMetadata: exactly one entry authorization is read.
func TestCredentialsInMetadata(t *testing.T) {
	t.Parallel()
	h, _ := closed(t)
	none, malformed := access.ErrNoCredential.Detail, "the request must have one header Authorization, with the scheme Bearer and one token"
	for _, protocol := range []servertest.Protocol{servertest.Native, servertest.GRPCGo} {
		f := h.frontend(protocol)
		for _, c := range []struct {
			metadata []string
			detail   string
		}{
			{[]string{"authorization-bin", "Bearer ann"}, none},
			{[]string{"x-authorization", "Bearer ann", "token", "ann", "access_token", "ann"}, none},
			{[]string{"authorization", "Bearer ann", "authorization", "Bearer ann"}, malformed},
			{[]string{"authorization", "Bearer ann", "authorization", "Bearer ben"}, malformed},
			{[]string{"authorization", "Bearer ann, Bearer ben"}, malformed},
			{[]string{"authorization", "ann"}, malformed},
			{[]string{"authorization", "Basic ann"}, malformed},
			{[]string{"authorization", ""}, malformed},
			{[]string{"authorization", "Bearer " + strings.Repeat("a", access.MaxCredentialBytes+1)}, access.ErrInvalidCredential.Detail},
			{[]string{"authorization", "Bearer Ann"}, access.ErrInvalidCredential.Detail},
		} {
			_, err := f.GetTicket(metadata.AppendToOutgoingContext(t.Context(), c.metadata...), &openmatch.GetTicketRequest{TicketId: "x"})
			isError(t, err, codes.Unauthenticated, c.detail)
		}
		_, err := f.CreateTicket(metadata.AppendToOutgoingContext(t.Context(), "authorization", "bearer  ann"), &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
		require.NoError(t, err)
	}
	require.NotContains(t, h.logs.Text(t), "Bearer ann")
}

// TestCredentialsOfJSONPaths are in a header, not in the URL, and errors have the form of the paths.
func TestCredentialsOfJSONPaths(t *testing.T) {
	t.Parallel()
	h, _ := closed(t)
	const tickets = "/v1/frontendservice/tickets"
	id, _ := h.created(h.frontend(servertest.Native), "ann", "tidemark-ticket-id", "Ann-1")
	for _, c := range []struct {
		credential, method, path string
		status                   int
		code                     string
	}{
		{"", "POST", tickets, 401, `"code":16`}, {"", "GET", tickets + "/" + id, 401, `"code":16`},
		{"", "POST", "/v1/queryservice/tickets:query", 401, `"grpc_code":16`},
		{"ben", "GET", tickets + "/" + id, 403, `"code":7`}, {"ben", "DELETE", tickets + "/" + id, 403, `"code":7`},
		{"ben", "GET", tickets + "/%41nn%2D1", 403, `"code":7`},
		{"ben", "GET", tickets + "/Ann-1/assignments", 403, `"grpc_code":7`},
		{"ben", "GET", tickets + "/none", 403, `"code":7`}, {"ben", "GET", tickets + "/" + id + "?ticket_id=none", 403, `"code":7`},
		{"ann", "GET", tickets + "/%41nn%2D1", 200, `"id":"Ann-1"`},
		{"ann", "POST", "/v1/queryservice/tickets:query", 403, `"grpc_code":7`},
		{"", "GET", tickets + "/" + id + "?access_token=ann", 400, `"code":3`}, {"ann", "GET", tickets + "/" + id + "?access_token=ann", 400, `"code":3`},
		{"", "POST", tickets + "?access_token=ann", 400, `"code":3`},
	} {
		got := h.sendAs(c.credential, c.method, c.path, "")
		body, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.Equal(t, c.status, got.StatusCode, "%v %s", c, body)
		require.Contains(t, string(body), c.code, c)
		require.Equal(t, c.status != 200, got.Header.Get("Www-Authenticate") != "" || strings.HasPrefix(c.credential, "ben"), c)
	}
	require.NotContains(t, h.logs.Text(t), "access_token=")
	got := h.sendAs("back", "POST", tickets, `{"ticket":{}}`)
	require.NotEmpty(t, got.Header.Get("Tidemark-Ticket-Token"))
	require.NotContains(t, h.logs.Text(t), got.Header.Get("Tidemark-Ticket-Token"))
}

// TestGuessesByGRPC: a client that sends many invalid credentials has to wait.
func TestGuessesByGRPC(t *testing.T) {
	t.Parallel()
	h, _ := closed(t)
	f := h.frontend(servertest.Native)
	require.Eventually(t, func() bool {
		_, err := f.GetTicket(h.as("guess"), &openmatch.GetTicketRequest{TicketId: "x"})
		return status.Code(err) == codes.ResourceExhausted
	}, servertest.Patience, servertest.Step)
}
