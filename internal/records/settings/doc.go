// Package settings keeps the settings of applications, Discours.io's env_vars: values by name, in categories, some of
// them secret.
//
// Start from [NewService]. Each change is published on the channel [Channel], by name and without the value, so that a
// process is notified at once: it subscribes, lists the settings, and reads a setting again when a message names it.
//
// # Order of writes
//
// A setting is a mark in one index, and a value in a slot of its own. A put marks it, writes the value and publishes,
// in this order; a delete removes the value, then the mark, and publishes. If one of them is interrupted, a repeat
// completes it. A setting that becomes secret is marked before its value is written, and one that becomes public after
// that: no reader without access to secrets is ever shown one. While a put may still write a secret value, another one
// can't make the setting public: it stays secret, and the answer reports that.
package settings
