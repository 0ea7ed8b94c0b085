//! What the assembly does at its edges: frees registers, and puts them back.

/// Assembly that frees registers and flags, rcx and rax being spilled; the exit is that of the long way.
macro_rules! spill {
    ($exit:literal) => {
        concat!(
            "lahf\n",
            "seto al\n",
            "mov gs:[{spill_flags}], rax\n",
            "mov dword ptr gs:[{exit}], ",
            $exit,
            "\n",
            "mov gs:[{gpr}+16], rdx\n",
            "mov gs:[{gpr}+48], rsi\n",
            "mov gs:[{gpr}+56], rdi\n",
            "mov gs:[{gpr}+64], r8\n",
            "mov gs:[{gpr}+72], r9\n",
        )
    };
}

/// Assembly that puts back all that [`spill`] has freed.
macro_rules! restore {
    () => {
        concat!(
            "mov rdx, gs:[{gpr}+16]\n",
            "mov rsi, gs:[{gpr}+48]\n",
            "mov rdi, gs:[{gpr}+56]\n",
            "mov r8, gs:[{gpr}+64]\n",
            "mov r9, gs:[{gpr}+72]\n",
            "mov rax, gs:[{spill_flags}]\n",
            "add al, 127\n",
            "sahf\n",
            "mov rax, gs:[{spill_rax}]\n",
            "mov rcx, gs:[{spill_rcx}]\n",
        )
    };
}

/// Assembly that leaves the site in rdx.
macro_rules! site_in_rdx {
    () => {
        concat!(
            "mov edx, gs:[{argument}]\n",
            "shl rdx, {site_shift}\n",
            "add rdx, gs:[{sites}]\n",
        )
    };
}
pub(crate) use {restore, site_in_rdx, spill};
