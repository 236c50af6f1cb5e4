#!/usr/bin/env bash
# player.sh NAME: one player who looks for a duel, with nothing but curl. The service is at TIDEMARK_SERVER.
set -euo pipefail
server=${TIDEMARK_SERVER:-http://127.0.0.1:8080}
name=${1:?usage: player.sh NAME}
id="$name-$(date +%s)"

# The ticket, with a channel of its own and a subscriber on it. Its ID makes it safe to send this again.
curl -sS --fail-with-body "$server/v1/tickets" -d "{\"queue\":\"duel\",\"id\":\"$id\"}"
trap 'curl -sS -X DELETE "$server/v1/tickets/$id"' EXIT # a player who gives up is out of the queue
trap 'exit 130' INT TERM

echo "$name looks for an opponent; start another player in a second terminal" >&2
mailbox="$server/v1/channels/ticket.$id/subscribers/player"
until
  answer=$(curl -sS --fail-with-body "$mailbox/messages?wait=20s") || { echo "$answer" >&2; exit 1; }
  [[ $answer == *assignment-* ]]
do :; done
trap - EXIT
echo "$answer"

# What isn't acknowledged would come again.
handle=$(grep -o '"receiptHandle":"[^"]*"' <<<"$answer")
curl -sS --fail-with-body "$mailbox/ack" -d "{$handle}"
