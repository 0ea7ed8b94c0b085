//! The programs whose cost is measured.

/// What kind of work a load is; the aims differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Ordinary,
    /// Most of its work is on persistent memory.
    Persistent,
    /// A server: only its own time counts, not its clients'.
    Server,
    /// Does nothing: what is measured is starting.
    StartUp,
}

/// One load. In its command, `{pm}` stands for an empty directory in memory, `{cc1}` for the compiler
/// proper, `{NAME}` for a program of ours; it runs in a directory that `setup` prepared.
pub struct Load {
    pub name: &'static str,
    pub kind: Kind,
    pub needs: &'static [&'static str],
    pub setup: &'static str,
    pub command: &'static [&'static str],
}

const PERL: &str = r#"
my (%count, @sorted);
for my $i (1..400000) {
    my $word = sprintf("%05d", $i * 7919 % 100003);
    $count{$1}++ if $word =~ /^(\d\d)\d*\1$/;
    $count{reverse $word} += length $word if $i % 3 == 0;
}
@sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print scalar(@sorted), " $sorted[0]\n";
"#;

const PYTHON: &str = r#"
import json, re
class Node:
    def __init__(self, key): self.key, self.left, self.right = key, None, None
def insert(root, key):
    if root is None: return Node(key)
    if key < root.key: root.left = insert(root.left, key)
    else: root.right = insert(root.right, key)
    return root
root = None
for i in range(60000): root = insert(root, i * 7919 % 100003)
text = json.dumps({str(i): [i, str(i * i)] for i in range(40000)})
total = sum(len(v[1]) for v in json.loads(text).values())
total += len(re.findall(r'"(\d)\d*\1"', text))
total += sum(x * y % 7 for x in range(1200) for y in range(1200))
print(total)
"#;

/// A C file of some size with ordinary code in it, preprocessed so that the compiler proper does all.
const CC1_SETUP: &str = r##"
{
    echo '#include <stdio.h>'; echo '#include <stdlib.h>'; echo '#include <string.h>'
    for i in $(seq 1 100); do cat <<END
struct s$i { int a, b; char name[32]; struct s$i *next; };
static int f$i(struct s$i *p, int n) {
    int sum = 0;
    for (int i = 0; i < n && p; i++, p = p->next) {
        switch (p->a % 7) {
        case 0: sum += p->b; break;
        case 1: sum -= p->a * $i; break;
        case 2: sum ^= (int)strlen(p->name); break;
        case 3: if (p->b > $i) sum += f$i(p->next, n - 1); break;
        default: sum = sum * 31 + p->name[i % 32];
        }
    }
    return sum;
}
int g$i(int n) {
    struct s$i *head = 0;
    for (int i = 0; i < n; i++) {
        struct s$i *new = malloc(sizeof *new);
        new->a = i * $i; new->b = i ^ $i; new->next = head;
        snprintf(new->name, sizeof new->name, "%d-%d", i, $i);
        head = new;
    }
    return f$i(head, n);
}
END
    done
} >big.c; gcc -E -o big.i big.c"##;

const SQLITE_SETUP: &str = "{ echo 'create table t(k integer primary key, v int, w text); create index i on t(v); begin;'; \
    seq 1 100000 | awk '{print \"insert into t values(\" $1 \",\" ($1*7919)%100003 \",\\047word\" $1%97 \"\\047);\"}'; \
    echo 'commit; select w, count(*), avg(v) from t group by w order by 2 desc limit 3; delete from t where v % 5 = 0; select count(*) from t;'; } >in.sql";

pub const LOADS: &[Load] = &[
    Load {
        name: "integer loop",
        kind: Kind::Ordinary,
        needs: &["gcc"],
        setup: "",
        command: &["{integer_loop}"],
    },
    Load {
        name: "perl",
        kind: Kind::Ordinary,
        needs: &["perl"],
        setup: "",
        command: &["perl", "-e", PERL],
    },
    Load {
        name: "sqlite",
        kind: Kind::Ordinary,
        needs: &["sqlite3"],
        setup: SQLITE_SETUP,
        command: &["sqlite3", ":memory:", ".read in.sql"],
    },
    Load {
        name: "cc1",
        kind: Kind::Ordinary,
        needs: &["gcc"],
        setup: CC1_SETUP,
        command: &[
            "{cc1}",
            "-quiet",
            "-O2",
            "-fpreprocessed",
            "big.i",
            "-o",
            "big.s",
        ],
    },
    Load {
        name: "python",
        kind: Kind::Ordinary,
        needs: &["python3"],
        setup: "",
        command: &["python3", "-c", PYTHON],
    },
    Load {
        name: "redis",
        kind: Kind::Server,
        needs: &["redis-server", "redis-benchmark"],
        setup: "",
        command: &[
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            "socket",
            "--save",
            "",
            "--loglevel",
            "warning",
        ],
    },
    Load {
        name: "8 threads, one mutex",
        kind: Kind::Ordinary,
        needs: &["gcc"],
        setup: "",
        command: &["{mutex_threads}"],
    },
    Load {
        name: "libpmem loop",
        kind: Kind::Persistent,
        needs: &["gcc"],
        setup: "",
        command: &["{pmem_loop}", "{pm}"],
    },
    Load {
        name: "libpmemobj transactions",
        kind: Kind::Persistent,
        needs: &["gcc"],
        setup: "",
        command: &["{obj_transactions}", "{pm}"],
    },
    Load {
        name: "start-up of hello",
        kind: Kind::StartUp,
        needs: &["gcc"],
        setup: "",
        command: &["{hello}"],
    },
];
