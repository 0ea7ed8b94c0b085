//! Coreutils and the common tools of a Debian system: files, text, archives, compression, crypto.

use super::super::case::{Case, argv, sh};
use crate::compare::Normaliser::{DropLines, MaskNumbers};
use crate::test_directory::End;

/// A tree of small files, always the same.
const TREE: &str = "mkdir -p tree/a tree/b/c; for i in $(seq 1 120); do seq $i $((i*3)) >tree/a/f$i; cp tree/a/f$i tree/b/c/g$i; done; \
    find tree -exec touch -d '2020-02-02 02:02:02' {} +";
/// A text with some structure.
const TEXT: &str = "seq 1 40000 | awk '{print $1, ($1*7919)%1000, \"word\" ($1%97), \"user\" $1 \"@host\" ($1%13) \".example\"}' >text";

pub const CASES: &[Case] = &[
    argv("ls-recursive", &["ls", "-lR", "--time-style=+%s", "/usr/include/linux"]).core(),
    argv("ls-missing", &["ls", "/nowhere", "/etc/hostname"]).ends(End::Exit(2)).with_stderr().core(),
    sh("sort-threads", "sort --parallel=4 -S 1M -k2,2n -k3 text | sha256sum").setup(TEXT).core(),
    sh("sort-unique-join", "sort -k3,3 text >s; cut -d' ' -f3 text | sort -u >w; join -1 3 -2 1 s w | md5sum").setup(TEXT).core(),
    sh("wc-cut-uniq", "wc text; cut -d' ' -f2 text | sort | uniq -c | sort -rn | head -5").setup(TEXT).core(),
    sh("checksums", "cat text text text >t3; for s in cksum sum md5sum sha1sum sha512sum b2sum; do $s t3; done")
        .setup(TEXT)
        .core(),
    sh("base64-od", "base64 text | base64 -d | cmp - text && od -A x -t x1z text | tail -3").setup(TEXT).core(),
    sh("split-cat", "split -n 7 text part.; cat part.* | cmp - text; tac text | tail -1; shuf --random-source=text -n 3 text")
        .setup(TEXT)
        .core(),
    sh("dd-copies", "dd if=text of=out bs=1234 skip=3 seek=5 conv=notrunc,fsync 2>/dev/null; truncate -s 1M out; stat -c %s out")
        .setup(TEXT)
        .core(),
    sh("cp-mv-ln", "cp -a tree copy; ln -s a copy/l; ln copy/a/f1 copy/h; mv copy/b copy/d; rm -r tree/a; chmod 600 copy/a/f2; du -a --apparent-size copy | sort | md5sum")
        .setup(TREE)
        .core(),
    sh("factor", "seq 10000000000000 10000000000060 | factor").core(),
    sh("numfmt-printf", "seq 1 1000 100000 | numfmt --to=iec; printf '%s %5.3f %b %x\\n' a 3.14159 'b c' 255").core(),
    sh("date-formats", "date -u -d '2021-03-04 05:06:07' '+%A %d %B %Y %j %s'; date -u -d @0 -R").core(),
    argv("yes-head-sigpipe", &["bash", "-c", "yes | head -n 3; echo ${PIPESTATUS[0]}"]).core(),
    sh("tee-mkfifo", "mkfifo p; tee a b <p | wc -l & seq 1 500 >p; wait; cmp a b").core(),
    sh("find-predicates", "find tree -name '*1*' -size -2 -newermt 2019-01-01 -printf '%p %s %m %y\\n' | sort; find tree -type f -exec cat {} + | wc")
        .setup(TREE)
        .core(),
    sh("find-delete-xargs0", "find tree -name 'f*3' -delete; find tree -print0 | xargs -0 -n 40 echo | wc -w").setup(TREE).core(),
    sh("grep-extended", "grep -nE '(word1[0-9]|user42.*host7)' text | tail -5; grep -c user text; grep -vF word text")
        .setup(TEXT)
        .ends(End::Exit(1))
        .core(),
    sh("grep-perl-jit", "grep -oP '(?<=user)\\d+(?=@host1\\.)' text | tail -5; grep -cP '^(\\d)\\d*\\1 .*(word(?:1|3)+)$' text || true")
        .setup(TEXT)
        .core(),
    sh("sed-script", "sed -nE '1~500{s/(word)([0-9]+)/\\2-\\1/;y/abc/xyz/;p}' text; sed -i '2,$d' text; sed G text").setup(TEXT).core(),
    sh("mawk-tables", "mawk '{c[$3]+=$2} END {for (k in c) print k, c[k]}' text | sort | head -20").setup(TEXT).core(),
    sh("gawk-functions", "gawk 'function f(n){return n<2?n:f(n-1)+f(n-2)} BEGIN{print f(20); print strftime(\"%F\",0,1); print toupper(\"abc\"), gensub(/(a)(b)/,\"\\\\2\\\\1\",\"g\",\"abab\")}'")
        .needs(&["gawk"]),
    sh("diff-patch", "sed 's/word5/WORD/' text >new; diff -U1 text new | sed '1,2d' >d; patch -s text d; cmp text new; sed -i 1d new; diff -q text new").needs(&["patch"])
    .setup(TEXT).ends(End::Exit(1)).core(),
    sh("tar-archives", "tar --sort=name --owner=0 --group=0 --numeric-owner -cf t.tar tree; sha256sum t.tar; mkdir x; tar -C x -xf t.tar; diff -r tree x/tree; tar -tvf t.tar | wc -l")
        .setup(TREE)
        .core(),
    sh("tar-pipes-gzip", "tar --sort=name --owner=0 --group=0 -czf t.tgz tree; gzip -t t.tgz; tar -xOzf t.tgz tree/a/f9 | tail -2")
        .setup(TREE)
        .ignore(&["t.tgz"])
        .core(),
    sh("gzip-levels", "for l in 1 6 9; do gzip -n -$l -c text | sha256sum; done; gzip -n text; zcat text.gz | md5sum").setup(TEXT).core(),
    sh("bzip2", "bzip2 -k text; bzip2 -tv text.bz2; bunzip2 -c text.bz2 | cmp - text").setup(TEXT).needs(&["bzip2"]),
    sh("xz-threads", "xz -T2 -3 --block-size=200KiB -k text; xz -l --robot text.xz | cut -f1-5; xz -dc -T2 text.xz | cmp - text")
        .setup(TEXT)
        .needs(&["xz"])
        .core(),
    sh("zstd-threads", "zstd -q -T2 -9 text -o t.zst; zstd -q -dc t.zst | cmp - text; zstd -q --train -o dict part.* && zstd -q -D dict text -o t2.zst")
        .setup("seq 1 40000 >text; split -n 60 text part.")
        .needs(&["zstd"])
        .core(),
    sh("zip-unzip", "zip -qr z.zip tree; unzip -tq z.zip; mkdir x; unzip -q z.zip -d x; diff -r tree x/tree")
        .setup(TREE)
        .ignore(&["z.zip"])
        .needs(&["zip", "unzip"]),
    sh("xxd-file", "head -c 4000 text | xxd | xxd -r | cmp - text; file text /bin/ls | cut -c1-60").setup(TEXT).needs(&["xxd", "file"]).ends(End::Exit(0)),
    sh("bc-digits", "echo 'scale=200; 4*a(1)' | bc -l; echo '2^521-1' | bc").needs(&["bc"]),
    sh("jq-queries", "jq -c '[.[] | select(.n % 3 == 0) | {n, s: (.s|ascii_upcase)}] | group_by(.s) | map(length)' in.json")
        .setup("awk 'BEGIN{printf \"[\"; for(i=0;i<2000;i++) printf \"%s{\\\"n\\\":%d,\\\"s\\\":\\\"s%d\\\"}\", i?\",\":\"\", i, i%7; print \"]\"}' >in.json")
        .needs(&["jq"]),
    sh("openssl-crypto", "openssl dgst -sha3-256 text; openssl enc -aes-256-cbc -K 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff -iv 00112233445566778899aabbccddeeff -in text -out e; openssl enc -chacha20 -K 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff -iv 00112233445566778899aabbccddeeff -in text | md5sum; openssl prime 1000003")
        .setup(TEXT)
        .needs(&["openssl"])
        .core(),
    sh("openssl-keys", "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out k; openssl pkey -in k -pubout -out p; openssl dgst -sha256 -sign k -out s text; openssl dgst -sha256 -verify p -signature s text; openssl req -x509 -new -key k -subj /CN=x -out c; openssl verify -CAfile c c")
        .setup(TEXT)
        .ignore(&["k", "p", "s", "c"])
        .needs(&["openssl"]),
    sh("openssl-speed", "openssl speed -seconds 1 -bytes 4096 sha256 aes-128-gcm ecdsap256 2>/dev/null | sed 's/[0-9. ]//g'")
        .normalise(&[DropLines("CPUINFO")])
        .needs(&["openssl"]),
    sh("openssl-speed-multi", "openssl speed -multi 2 -seconds 1 -bytes 1024 sha1 2>/dev/null | tail -1 | sed 's/[0-9. ]//g'").needs(&["openssl"]),
    sh("gdb-batch", "gdb -nx -batch -ex 'print 6*7' -ex 'info line main' /bin/true 2>/dev/null | head -1").needs(&["gdb"]),
    sh("ps-self", "ps -o comm= -p $$; cat /proc/self/comm; tr '\\0' ' ' </proc/self/cmdline; readlink /proc/self/exe").needs(&["ps"]).core(),
    sh("locale-iconv", "iconv -f UTF-8 -t UTF-16LE in | od -c | head -3; locale -a | grep -c C")
        .setup("printf 'na\\303\\257ve \\342\\202\\254\\n' >in")
        .core(),
    sh("getent-id", "getent passwd root; id -un; getent hosts localhost | awk '{print $2}'; hostname | wc -l").core(),
    sh("apt-cache-policy", "apt-cache policy bash | head -1; dpkg -s bash | grep ^Package; dpkg -l | wc -l").core(),
    sh("mktemp-flock", "f=$(mktemp -p .); for i in 1 2 3 4 5 6; do (flock 9; n=$(cat n); echo $((n+1)) >n) 9>lock & done; wait; cat n; rm $f")
        .setup("echo 0 >n")
        .core(),
    sh("time-reports", "bash -c 'time true' 2>&1 | sed 's/[0-9]/#/g'; nproc").normalise(&[MaskNumbers]).core(),
];
