package openmatch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tidemark-dev/tidemark/openmatch"
)

// facts is the public API: every message with its fields, every enum with its values, every call.
const facts = `
openmatch.AcknowledgeBackfillRequest: backfill_id=1 string, assignment=2 openmatch.Assignment
openmatch.AcknowledgeBackfillResponse: backfill=1 openmatch.Backfill, tickets=2 []openmatch.Ticket
openmatch.Assignment: connection=1 string, extensions=4 map[string]google.protobuf.Any
openmatch.AssignmentGroup: ticket_ids=1 []string, assignment=2 openmatch.Assignment
openmatch.AssignTicketsRequest: assignments=1 []openmatch.AssignmentGroup
openmatch.AssignTicketsResponse: failures=1 []openmatch.AssignmentFailure
openmatch.AssignmentFailure: ticket_id=1 string, cause=2 openmatch.AssignmentFailure.Cause
openmatch.AssignmentFailure.Cause: UNKNOWN=0, TICKET_NOT_FOUND=1
openmatch.Backfill: id=1 string, search_fields=2 openmatch.SearchFields, extensions=3 map[string]google.protobuf.Any, persistent_field=4 map[string]google.protobuf.Any, create_time=5 google.protobuf.Timestamp, generation=6 int64
openmatch.CreateBackfillRequest: backfill=1 openmatch.Backfill
openmatch.CreateTicketRequest: ticket=1 openmatch.Ticket
openmatch.DefaultEvaluationCriteria: score=1 double
openmatch.DeindexTicketRequest: ticket_id=1 string
openmatch.DeindexTicketResponse:
openmatch.DeleteBackfillRequest: backfill_id=1 string
openmatch.DeleteTicketRequest: ticket_id=1 string
openmatch.DoubleRangeFilter: double_arg=1 string, max=2 double, min=3 double, exclude=4 openmatch.DoubleRangeFilter.Exclude
openmatch.DoubleRangeFilter.Exclude: NONE=0, MIN=1, MAX=2, BOTH=3
openmatch.EvaluateRequest: match=1 openmatch.Match
openmatch.EvaluateResponse: match_id=2 string
openmatch.FetchMatchesRequest: config=1 openmatch.FunctionConfig, profile=2 openmatch.MatchProfile
openmatch.FetchMatchesResponse: match=1 openmatch.Match
openmatch.FunctionConfig: host=1 string, port=2 int32, type=3 openmatch.FunctionConfig.Type
openmatch.FunctionConfig.Type: GRPC=0, REST=1
openmatch.GetBackfillRequest: backfill_id=1 string
openmatch.GetTicketRequest: ticket_id=1 string
openmatch.Match: match_id=1 string, match_profile=2 string, match_function=3 string, tickets=4 []openmatch.Ticket, extensions=7 map[string]google.protobuf.Any, backfill=8 openmatch.Backfill, allocate_gameserver=9 bool
openmatch.MatchProfile: name=1 string, pools=3 []openmatch.Pool, extensions=5 map[string]google.protobuf.Any
openmatch.Pool: name=1 string, double_range_filters=2 []openmatch.DoubleRangeFilter, string_equals_filters=4 []openmatch.StringEqualsFilter, tag_present_filters=5 []openmatch.TagPresentFilter, created_before=6 google.protobuf.Timestamp, created_after=7 google.protobuf.Timestamp
openmatch.QueryBackfillsRequest: pool=1 openmatch.Pool
openmatch.QueryBackfillsResponse: backfills=1 []openmatch.Backfill
openmatch.QueryTicketIdsRequest: pool=1 openmatch.Pool
openmatch.QueryTicketIdsResponse: ids=1 []string
openmatch.QueryTicketsRequest: pool=1 openmatch.Pool
openmatch.QueryTicketsResponse: tickets=1 []openmatch.Ticket
openmatch.ReleaseAllTicketsRequest:
openmatch.ReleaseAllTicketsResponse:
openmatch.ReleaseTicketsRequest: ticket_ids=1 []string
openmatch.ReleaseTicketsResponse:
openmatch.RunRequest: profile=1 openmatch.MatchProfile
openmatch.RunResponse: proposal=1 openmatch.Match
openmatch.SearchFields: double_args=1 map[string]double, string_args=2 map[string]string, tags=3 []string
openmatch.StringEqualsFilter: string_arg=1 string, value=2 string
openmatch.TagPresentFilter: tag=1 string
openmatch.Ticket: id=1 string, assignment=3 openmatch.Assignment, search_fields=4 openmatch.SearchFields, extensions=5 map[string]google.protobuf.Any, persistent_field=6 map[string]google.protobuf.Any, create_time=7 google.protobuf.Timestamp
openmatch.UpdateBackfillRequest: backfill=1 openmatch.Backfill
openmatch.WatchAssignmentsRequest: ticket_id=1 string
openmatch.WatchAssignmentsResponse: assignment=1 openmatch.Assignment
openmatch.FrontendService.CreateTicket(openmatch.CreateTicketRequest) openmatch.Ticket
openmatch.FrontendService.DeleteTicket(openmatch.DeleteTicketRequest) google.protobuf.Empty
openmatch.FrontendService.GetTicket(openmatch.GetTicketRequest) openmatch.Ticket
openmatch.FrontendService.WatchAssignments(openmatch.WatchAssignmentsRequest) stream openmatch.WatchAssignmentsResponse
openmatch.FrontendService.AcknowledgeBackfill(openmatch.AcknowledgeBackfillRequest) openmatch.AcknowledgeBackfillResponse
openmatch.FrontendService.CreateBackfill(openmatch.CreateBackfillRequest) openmatch.Backfill
openmatch.FrontendService.DeleteBackfill(openmatch.DeleteBackfillRequest) google.protobuf.Empty
openmatch.FrontendService.GetBackfill(openmatch.GetBackfillRequest) openmatch.Backfill
openmatch.FrontendService.UpdateBackfill(openmatch.UpdateBackfillRequest) openmatch.Backfill
openmatch.FrontendService.DeindexTicket(openmatch.DeindexTicketRequest) openmatch.DeindexTicketResponse
openmatch.QueryService.QueryTickets(openmatch.QueryTicketsRequest) stream openmatch.QueryTicketsResponse
openmatch.QueryService.QueryTicketIds(openmatch.QueryTicketIdsRequest) stream openmatch.QueryTicketIdsResponse
openmatch.QueryService.QueryBackfills(openmatch.QueryBackfillsRequest) stream openmatch.QueryBackfillsResponse
openmatch.BackendService.FetchMatches(openmatch.FetchMatchesRequest) stream openmatch.FetchMatchesResponse
openmatch.BackendService.AssignTickets(openmatch.AssignTicketsRequest) openmatch.AssignTicketsResponse
openmatch.BackendService.ReleaseTickets(openmatch.ReleaseTicketsRequest) openmatch.ReleaseTicketsResponse
openmatch.BackendService.ReleaseAllTickets(openmatch.ReleaseAllTicketsRequest) openmatch.ReleaseAllTicketsResponse
openmatch.MatchFunction.Run(openmatch.RunRequest) stream openmatch.RunResponse
openmatch.Evaluator.Evaluate(stream openmatch.EvaluateRequest) stream openmatch.EvaluateResponse
`

// TestFactsOfTheAPI compares names, numbers and types of our .proto files with those of the public API.
func TestFactsOfTheAPI(t *testing.T) {
	t.Parallel()
	var found []string
	for _, file := range []protoreflect.FileDescriptor{
		openmatch.File_openmatch_messages_proto, openmatch.File_openmatch_extensions_proto,
		openmatch.File_openmatch_frontend_proto, openmatch.File_openmatch_backend_proto,
		openmatch.File_openmatch_query_proto, openmatch.File_openmatch_matchfunction_proto,
		openmatch.File_openmatch_evaluator_proto,
	} {
		for i := range file.Messages().Len() {
			found = append(found, messageFacts(file.Messages().Get(i))...)
		}
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				found = append(found, methodFact(methods.Get(j)))
			}
		}
	}
	require.ElementsMatch(t, strings.Split(strings.TrimSpace(facts), "\n"), found)
}

func messageFacts(m protoreflect.MessageDescriptor) []string {
	var fields []string
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		fields = append(fields, fmt.Sprintf("%s=%d %s", f.Name(), f.Number(), typeFact(f)))
	}
	all := []string{strings.TrimSpace(string(m.FullName()) + ": " + strings.Join(fields, ", "))}
	for i := range m.Enums().Len() {
		e := m.Enums().Get(i)
		var values []string
		for j := range e.Values().Len() {
			values = append(values, fmt.Sprintf("%s=%d", e.Values().Get(j).Name(), e.Values().Get(j).Number()))
		}
		all = append(all, string(e.FullName())+": "+strings.Join(values, ", "))
	}
	return all
}

func typeFact(f protoreflect.FieldDescriptor) string {
	name := f.Kind().String()
	switch {
	case f.IsMap():
		return "map[" + typeFact(f.MapKey()) + "]" + typeFact(f.MapValue())
	case f.Message() != nil:
		name = string(f.Message().FullName())
	case f.Enum() != nil:
		name = string(f.Enum().FullName())
	}
	if f.IsList() {
		return "[]" + name
	}
	return name
}

func methodFact(m protoreflect.MethodDescriptor) string {
	in, out := string(m.Input().FullName()), string(m.Output().FullName())
	if m.IsStreamingClient() {
		in = "stream " + in
	}
	if m.IsStreamingServer() {
		out = "stream " + out
	}
	return fmt.Sprintf("%s(%s) %s", m.FullName(), in, out)
}
