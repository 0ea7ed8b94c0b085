//! Numbers of things, as a sentence says them.

/// `1 crash point`, `2 crash points`.
pub fn number_of(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// `1 recovery`, `2 recoveries`.
pub fn recoveries(count: u64) -> String {
    match count {
        1 => "1 recovery".to_owned(),
        _ => format!("{count} recoveries"),
    }
}

/// `1 crash`, `2 crashes`.
pub fn crashes(count: u64) -> String {
    match count {
        1 => "1 crash".to_owned(),
        _ => format!("{count} crashes"),
    }
}
