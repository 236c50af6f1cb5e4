#!/usr/bin/env bash
# player.sh NAME looks for a duel, using only curl. The service is at TIDEMARK_SERVER.
set -euo pipefail
server=${TIDEMARK_SERVER:-http://127.0.0.1:8080}
name=${1:?usage: player.sh NAME}
id="$name-$(date +%s)"

# Create a ticket, with a channel and a subscriber of its own. The ID makes it safe to repeat this request.
curl -sS --fail-with-body "$server/v1/tickets" -d "{\"queue\":\"duel\",\"id\":\"$id\"}"
trap 'curl -sS -X DELETE "$server/v1/tickets/$id"' EXIT # cancel the ticket if the player gives up
trap 'exit 130' INT TERM

echo "$name is looking for an opponent; start another player in a second terminal" >&2
mailbox="$server/v1/channels/ticket.$id/subscribers/player"
until
  answer=$(curl -sS --fail-with-body "$mailbox/messages?wait=20s") || { echo "$answer" >&2; exit 1; }
  [[ $answer == *assignment-* ]]
do :; done
trap - EXIT
echo "$answer"

# Without the acknowledgement, the message would be delivered again.
handle=$(grep -o '"receiptHandle":"[^"]*"' <<<"$answer")
curl -sS --fail-with-body "$mailbox/ack" -d "{$handle}"
