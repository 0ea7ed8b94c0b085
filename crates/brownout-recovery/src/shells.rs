//! The names of shells: programs that run the text after their option `-c`, and end as the last command that they ran.

const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "busybox"];

/// Whether a program with this name is a shell.
pub fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}
