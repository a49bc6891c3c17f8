//! News for a person who waits: something takes long, and why. A server has a log, and the news is a line of it, in the
//! log's form. A command such as `paddock run` has none, and prints it.

pub fn tell_waiting(text: &str) {
    match tracing::dispatcher::has_been_set() {
        true => tracing::info!("{text}"),
        false => eprintln!("paddock: {text}"),
    }
}
