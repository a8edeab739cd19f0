//! Programs that must not compile, and what the compiler has to say of them.
//!
//! They are here and not beside the macros' other tests, since they are built with all features of
//! their package, which takes a minute there.

#[test]
fn mistakes_are_explained_by_the_compiler() {
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
