#!/usr/bin/env bash
# check-changelog.sh [VERSION] checks the form of CHANGELOG.md: one section [Unreleased] at the top, then versions with
# dates, the newest first, under the headings of Keep a Changelog. For a release, VERSION must have a section with a date.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:-}
awk -v version="${version#v}" '
  function fail(text) { printf "CHANGELOG.md:%d: %s\n", NR, text >"/dev/stderr"; failed = 1; exit 1 }
  # order returns a text that sorts as the version does, with a release after its candidates
  function order(v,  part) {
    split(v, part, /[.-]/)
    return sprintf("%05d.%05d.%05d.%s", part[1], part[2], part[3], v ~ /-/ ? substr(v, index(v, "-")) : "~")
  }
  /^## / {
    sections++
    if (sections == 1 && $0 != "## [Unreleased]") fail("the first section must be [Unreleased]")
    if (sections > 1) {
      if ($0 !~ /^## \[[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?\] - [0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]$/)
        fail("a section is \"## [1.2.3] - 2026-01-31\"")
      this = substr($2, 2, length($2) - 2)
      if (last != "" && order(this) >= order(last)) fail("the newest version comes first")
      if (day != "" && $4 > day) fail("the date is later than that of the version above")
      last = this; day = $4
      if (this == version) found = 1
    }
    inside = this
  }
  /^### / && !/^### (Added|Changed|Deprecated|Removed|Fixed|Security|Upgrade)$/ { fail("not a heading of Keep a Changelog: " $0) }
  /^- / && inside == version { entries++ }
  END {
    if (failed) exit 1
    if (sections == 0) { print "CHANGELOG.md: no section [Unreleased]" >"/dev/stderr"; exit 1 }
    if (version != "" && (!found || !entries)) {
      printf "CHANGELOG.md: no entries under \"## [%s] - date\": a release needs them\n", version >"/dev/stderr"; exit 1
    }
  }' CHANGELOG.md
