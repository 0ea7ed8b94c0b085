//! Interpreters: heaps of generated calls, garbage collectors, threads, extension modules, JITs.

use super::super::case::{Case, argv, sh};
use crate::test_directory::End;

const PYTHON: &[&str] = &["python3"];

pub const CASES: &[Case] = &[
    argv("python-hello", &["python3", "-c", "import sys; print('hello', sys.argv[1:])", "a", "b c"]).needs(PYTHON).core(),
    argv("python-loops", &["python3", "-c", "print(sum(i * i % 7 for i in range(300000)), sorted({str(i)[::-1] for i in range(999)})[:9])"])
        .needs(PYTHON)
        .core(),
    argv("python-exception", &["python3", "-c", "def f(n): return f(n - 1) if n else 1 / 0\nf(20)"])
        .needs(PYTHON)
        .ends(End::Exit(1))
        .with_stderr()
        .core(),
    argv("python-recursion", &["python3", "-c", "def f(n): return 1 + f(n + 1)\ntry: f(0)\nexcept RecursionError as e: print(e)"])
        .needs(PYTHON)
        .core(),
    argv("python-threads", &["python3", "-c", "import threading, queue\nq = queue.Queue()\nts = [threading.Thread(target=lambda i=i: [q.put(i * n) for n in range(200)]) for i in range(8)]\n[t.start() for t in ts]; [t.join() for t in ts]\nprint(q.qsize(), sum(q.queue))"])
        .needs(PYTHON)
        .core(),
    sh("python-multiprocessing", "python3 pool.py")
        .setup("cat >pool.py <<'E'\nimport multiprocessing as mp\ndef f(x): return x * x\nif __name__ == '__main__':\n    for how in ('fork', 'spawn', 'forkserver'):\n        with mp.get_context(how).Pool(3) as pool: print(how, sum(pool.map(f, range(1000))))\n    q = mp.Queue(); p = mp.Process(target=q.put, args=('x' * 100000,)); p.start(); print(len(q.get())); p.join(); print(p.exitcode)\nE")
        .ignore(&["__pycache__"])
        .needs(PYTHON)
        .core(),
    sh("python-shared-memory", "python3 shm.py")
        .setup("cat >shm.py <<'E'\nimport mmap, os\nf = open('m', 'w+b'); f.truncate(8192); m = mmap.mmap(f.fileno(), 8192)\nfor i in range(4):\n    if os.fork() == 0:\n        m[i * 1000:i * 1000 + 4] = b'%04d' % i; os._exit(i)\nprint(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(4)), m[3000:3004]); m.flush()\nE")
        .needs(PYTHON)
        .core(),
    argv("python-ctypes-callback", &["python3", "-c", "import ctypes\nlibc = ctypes.CDLL(None)\nF = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))\na = (ctypes.c_int * 9)(*[5, 2, 9, 1, 7, 3, 8, 6, 4])\nlibc.qsort(a, 9, 4, F(lambda x, y: x[0] - y[0]))\nprint(list(a), libc.strlen(b'four'), libc.abs(-5))"])
        .needs(PYTHON)
        .core(),
    argv("python-signals", &["python3", "-c", "import signal, os, time\nn = []\nsignal.signal(signal.SIGALRM, lambda *a: n.append(1))\nsignal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)\nwhile len(n) < 20: pass\nsignal.setitimer(signal.ITIMER_REAL, 0)\nprint('ticks'); os.kill(os.getpid(), signal.SIGTERM)"])
        .needs(PYTHON)
        .ends(End::Signal(15))
        .core(),
    argv("python-subprocess", &["python3", "-c", "import subprocess as s\nprint(s.run(['sh', '-c', 'cat; exit 3'], input=b'x' * 99999, capture_output=True).returncode)\nprint(s.check_output('seq 5 | tac', shell=True, text=True).split())\ntry: s.run(['./nowhere'])\nexcept FileNotFoundError as e: print(e)"])
        .needs(PYTHON)
        .core(),
    argv("python-asyncio", &["python3", "-c", "import asyncio\nasync def echo(r, w):\n    w.write(await r.readexactly(5)); await w.drain(); w.close()\nasync def main():\n    s = await asyncio.start_unix_server(echo, 'sock')\n    async def one(i):\n        r, w = await asyncio.open_unix_connection('sock'); w.write(b'%05d' % i); return int(await r.read())\n    print(sum(await asyncio.gather(*[one(i) for i in range(60)])))\n    p = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1); print((await p.communicate(b'abc'))[0])\nasyncio.run(main())"])
        .needs(PYTHON)
        .core(),
    argv("python-modules", &["python3", "-c", "import json, re, zlib, hashlib, sqlite3, decimal, bz2, lzma, struct, random\nrandom.seed(1)\nd = json.dumps({str(i): random.random() for i in range(500)})\nprint(zlib.crc32(d.encode()), hashlib.blake2b(d.encode()).hexdigest()[:16], len(re.findall(r'0\\.(\\d)\\d*\\1', d)), decimal.Decimal(2).sqrt())\nprint(len(bz2.compress(d.encode())), len(lzma.compress(d.encode())), sqlite3.connect(':memory:').execute('select 6*7').fetchone())"])
        .needs(PYTHON),
    argv("python-faulthandler", &["python3", "-c", "import ctypes; ctypes.string_at(0)"]).needs(PYTHON).ends(End::Signal(11)).core(),
    argv("perl-regex", &["perl", "-e", "my %c; for my $i (1..60000) { my $s = sprintf('%05d', $i*7919%100003); $c{$1}++ if $s =~ /^(\\d)\\d+\\1$/ } print join(',', map {\"$_=$c{$_}\"} sort keys %c), \"\\n\""])
        .needs(&["perl"])
        .core(),
    argv("perl-sort-pack", &["perl", "-e", "my @a = map { ($_*7919)%10007 } 1..30000; @a = sort { $a <=> $b } @a; print unpack('%32C*', pack('N*', @a)), ' ', join(' ', @a[0..4]), \"\\n\""])
        .needs(&["perl"])
        .core(),
    argv("perl-fork-pipe", &["perl", "-e", "for (1..5) { pipe(R, W); if (!fork) { close R; print W 'x' x $_; exit $_ } close W; my $d = <R>; wait; print length($d), ' ', $? >> 8, \"\\n\" } local $SIG{ALRM} = sub { die \"alarm\\n\" }; alarm 1; eval { select undef, undef, undef, 9 }; print $@"])
        .needs(&["perl"])
        .core(),
    argv("perl-die", &["perl", "-e", "$SIG{__DIE__} = sub { print \"dying: @_\" }; eval { die \"one\\n\" }; die \"two\\n\""])
        .needs(&["perl"])
        .ends(End::Exit(255))
        .with_stderr()
        .core(),
    argv("ruby-blocks", &["ruby", "-e", "puts (1..20000).map { |i| i * 7919 % 1009 }.tally.max_by { |k, v| [v, k] }.inspect; begin; raise 'x'; rescue => e; puts e.message; end; puts Fiber.new { Fiber.yield 1; 2 }.then { |f| [f.resume, f.resume] }.sum"])
        .needs(&["ruby"]),
    argv("ruby-threads", &["ruby", "-e", "q = Queue.new; ts = 6.times.map { |i| Thread.new { 100.times { |n| q << i * n } } }; ts.each(&:join); s = 0; s += q.pop until q.empty?; puts s; puts `echo sub`; GC.stress = false; GC.start; p fork { exit 5 }.then { |pid| Process.wait2(pid)[1].exitstatus }"])
        .needs(&["ruby"]),
    argv("lua-coroutines", &["lua5.4", "-e", "local function gen(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) end local s = 0 for i in gen(50000) do s = s + i * i % 7 end print(s, pcall(error, 'e'), string.rep('ab', 3), (('x'):gsub('x', '%0%0')))"])
        .needs(&["lua5.4"]),
    argv("tcl-lists", &["tclsh"])
        .stdin("set s 0\nfor {set i 0} {$i < 50000} {incr i} {incr s [expr {$i * $i % 7}]}\nputs $s\nputs [lsort -integer [lmap x {5 3 9} {expr {$x * 2}}]]\nputs [catch {error boom} m] ; puts $m\n")
        .needs(&["tclsh"]),
    sh("sqlite-inserts", "sqlite3 d.db <in; sqlite3 d.db 'pragma integrity_check; select count(*), sum(v) from t; select k, v from t where v > 990 order by k limit 5'")
        .setup("{ echo 'create table t(k integer primary key, v int); create index i on t(v); begin;'; seq 1 20000 | awk '{print \"insert into t values(\" $1 \",\" ($1*7919)%1000 \");\"}'; echo 'commit; delete from t where v % 3 = 0; vacuum;'; } >in")
        .needs(&["sqlite3"])
        .core(),
    sh("sqlite-wal", "sqlite3 d.db 'pragma journal_mode=wal; create table t(a); insert into t values(1)'; for i in 1 2 3 4; do sqlite3 -cmd '.timeout 20000' d.db \"insert into t select $i from (with recursive c(x) as (select 1 union all select x+1 from c limit 500) select x from c)\" & done; wait; sqlite3 d.db 'select count(*), sum(a) from t'")
        .ignore(&["d.db"])
        .needs(&["sqlite3"])
        .core(),
    sh("sqlite-recursive", "sqlite3 :memory: \"with recursive m(x, n) as (select 1, 0 union all select x*1103515245 % 2147483647, n+1 from m limit 60000) select count(distinct x % 1000), max(n) from m; select json_extract('{\\\"a\\\":[1,2]}', '\\$.a[1]'), printf('%.3f', 1.0/3);\"")
        .needs(&["sqlite3"]),
    argv("node-jit", &["node", "-e", "let s = 0; for (let i = 0; i < 3e6; i++) s = (s + i * i) % 1000003; console.log(s, [3, 1, 2].sort(), JSON.stringify({a: [1, {b: 2}]}), /(\\d+)-\\1/.test('12-12')); setTimeout(() => console.log('later'), 5)"])
        .needs(&["node"]),
    sh("node-workers", "node w.js")
        .setup("cat >w.js <<'E'\nconst { Worker, isMainThread, parentPort, workerData } = require('worker_threads');\nif (isMainThread) { let n = 0, s = 0; for (let i = 0; i < 3; i++) new Worker(__filename, { workerData: i }).on('message', m => { s += m; if (++n == 3) console.log(s, require('child_process').execSync('echo child').toString().trim()); }); }\nelse { let s = 0; for (let i = 0; i < 1e6; i++) s = (s + i * workerData) % 997; parentPort.postMessage(s); }\nE")
        .needs(&["node"]),
    sh("java-hello", "java -Xint -XX:+UseSerialGC H.java")
        .setup("printf 'public class H { public static void main(String[] a) { long s = 0; for (int i = 0; i < 100000; i++) s += i %% 7; System.out.println(s); } }' >H.java")
        .needs(&["java"])
        .limit(300),
    sh("java-jit-threads", "java T.java")
        .setup("printf 'import java.util.stream.*; public class T { public static void main(String[] a) throws Exception { System.out.println(IntStream.range(0, 5000000).parallel().mapToLong(i -> (long) i * i %% 7).sum()); Object o = null; int n = 0; for (int i = 0; i < 100; i++) try { o.hashCode(); } catch (NullPointerException e) { n++; } System.out.println(n); } }' >T.java")
        .needs(&["java"])
        .limit(300),
];
