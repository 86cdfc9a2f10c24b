// The one source of this target that uses its precompiled header, so that the build makes it for
// the test programs.
