// The version of h2spec that `cargo xtask h2spec` builds, with those of what it needs.

//go:build tools

package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
