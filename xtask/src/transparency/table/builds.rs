//! Compilers and build tools: large programs, many processes, temporary files, vfork and pipes.

use super::super::case::{Case, sh};
use crate::test_directory::End;

/// A small C project of eight files.
const PROJECT: &str = "for i in 1 2 3 4 5 6 7 8; do printf '#include <stdio.h>\\n#include <string.h>\\nint f%d(int x) { char b[64]; snprintf(b, sizeof b, \"%%%%d\", x); int s = 0; for (char *p = b; *p; p++) s = s * 31 + *p; return s; }\\n' $i >f$i.c; done; \
    printf '#include <stdio.h>\\n' >main.c; for i in 1 2 3 4 5 6 7 8; do echo \"int f$i(int);\" >>main.c; done; printf 'int main(void) { int s = 0; for (int i = 0; i < 1000; i++) s ^= f1(i) + f2(i) + f8(i); printf(\"%%d\\\\n\", s); return 0; }\\n' >>main.c; \
    printf 'OBJS := f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o main.o\\nCFLAGS := -O2 -Wall\\nprog: $(OBJS)\\n\\t$(CC) -o $@ $^\\n%%.o: %%.c\\n\\t@$(CC) $(CFLAGS) -c $<\\nclean:\\n\\t@rm -f *.o prog\\n' >Makefile";

pub const CASES: &[Case] = &[
    sh("gcc-compile", "gcc -O2 -c f1.c && objdump -d f1.o | grep -c ret; gcc -O0 -S -o - f1.c | md5sum; gcc -o prog *.c && ./prog")
        .setup(PROJECT)
        .needs(&["gcc"])
        .core(),
    sh("gcc-error", "gcc -c bad.c").setup("echo 'int f( { return }' >bad.c").needs(&["gcc"]).ends(End::Exit(1)).with_stderr().core(),
    sh("gcc-lto", "gcc -O2 -flto -o prog *.c && ./prog").setup(PROJECT).needs(&["gcc"]).ignore(&["prog"]).limit(240),
    sh("gxx-templates", "g++ -O1 -std=c++17 -o t t.cpp && ./t")
        .setup("cat >t.cpp <<'E'\n#include <algorithm>\n#include <iostream>\n#include <map>\n#include <memory>\n#include <numeric>\n#include <regex>\n#include <string>\n#include <thread>\n#include <vector>\nstruct E { int v; };\nint deep(int n) { std::string s(n, 'x'); if (!n) throw E{7}; return deep(n - 1) + (int)s.size(); }\nint main() { std::map<std::string, int> m; for (int i = 0; i < 1000; i++) m[std::to_string(i % 37)] += i; int s = 0; std::thread t([&] { for (auto &p : m) s += p.second; }); t.join(); try { deep(50); } catch (E &e) { s += e.v; } std::cout << s << ' ' << std::regex_replace(std::string(\"a1b22\"), std::regex(\"[0-9]+\"), \"#\") << '\\n'; }\nE")
        .needs(&["g++"])
        .limit(240),
    sh("make-parallel", "make -s -j4 && ./prog; make -s -j4; make -q && echo fresh; make clean; ls *.o 2>/dev/null | wc -l")
        .setup(PROJECT)
        .needs(&["make", "gcc"])
        .core(),
    sh("make-error", "make -s -k all; echo $?")
        .setup("printf 'all: a b\\na:\\n\\t@echo a; false\\nb:\\n\\t@echo b\\n' >Makefile")
        .needs(&["make"])
        .core(),
    sh("as-ld", "printf '.globl _start\\n_start: mov $60,%%eax\\nmov $5,%%edi\\nsyscall\\n' | as -o a.o - && ld -o a a.o && ./a; echo $?; readelf -h a | grep Entry")
        .needs(&["gcc"])
        .core(),
    sh("ar-nm-strip", "gcc -g -c f1.c f2.c; ar rcsD l.a f1.o f2.o; nm l.a | grep -c ' T '; strip -o s.o f1.o; size s.o | tail -1 | cut -f1; strings -n 4 s.o | head -2")
        .setup(PROJECT)
        .needs(&["gcc"])
        .core(),
    sh("rustc-hello", "\"$RUSTC\" -O -o h h.rs && ./h; ./h panic; echo $?")
        .setup("cat >h.rs <<'E'\nuse std::collections::BTreeMap;\nfn main() { let mut m = BTreeMap::new(); for i in 0..1000u64 { *m.entry(i * 7919 % 37).or_insert(0) += i; } println!(\"{:?}\", m.iter().max()); let t: Vec<_> = (0..4).map(|i| std::thread::spawn(move || (0..1000u64).map(|n| n * i).sum::<u64>())).collect(); println!(\"{}\", t.into_iter().map(|t| t.join().unwrap()).sum::<u64>()); if std::env::args().count() > 1 { panic!(\"asked\"); } }\nE")
        .needs(&["gcc"])
        .limit(300),
    sh("rustc-library", "\"$RUSTC\" --crate-type=lib --emit=metadata,llvm-ir -O -C codegen-units=4 --edition=2021 l.rs; cat l.*.ll | grep -c define; \"$RUSTC\" --crate-type=lib bad.rs 2>&1 | head -3")
        .setup("cat >l.rs <<'E'\nuse std::fmt::Debug;\npub trait T { fn f(&self) -> String; }\nimpl<X: Debug> T for Vec<X> { fn f(&self) -> String { self.iter().map(|x| format!(\"{x:?}\")).collect::<Vec<_>>().join(\"+\") } }\npub fn g(n: u32) -> String { (0..n).collect::<Vec<_>>().f() }\nE\necho 'fn f() -> u32 { \"\" }' >bad.rs")
        .ignore(&["libl.rmeta"])
        .limit(300),
    sh("git-history", "set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x; git init -q -b main r; cd r; for i in $(seq 1 12); do seq 1 $((i*20)) >f$i; git add .; git commit -qm c$i; done; git checkout -q -b side HEAD~5; echo x >side; git add side; git commit -qm side; git merge -q main -m merge; git log --oneline --graph | sed 's/[0-9a-f]\\{7,\\}/#/' | head -8; git diff --stat HEAD~2 | tail -1; git gc -q; git fsck; git rev-list --count HEAD; git blame -s f12 | wc -l")
        .ignore(&["r/.git"])
        .needs(&["git"]),
    sh("git-objects", GIT_OBJECTS).needs(&["git"]).ignore(&["r/.git/index", "c/.git"]).core(),
    sh("git-errors", "git -C . status; git clone -q ./nowhere x").needs(&["git"]).ends(End::Exit(128)).with_stderr().core(),
];

const GIT_OBJECTS: &str = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'; \
    set -e; git init -q -b main r; cd r; seq 1 5000 >a; git add a; git commit -qm one; sed -i 's/77/xx/' a; git commit -qam two; git rev-parse HEAD HEAD^{tree}; git show --stat | tail -1; \
    cd ..; git clone -q r c; git -C c log --format=%s; git -C c grep -c xx; git -C r archive HEAD | sha256sum";
