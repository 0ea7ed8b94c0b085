//! The keeper of recoveries on its own, as the tests need it.

fn main() {
    brownout_crash::recovery::serve();
}
