//! Servers under load on loopback or a local socket. Server and clients are all under test.

use super::super::case::{Case, sh};

/// Waits until a path exists.
macro_rules! await_path {
    ($path:literal) => {
        concat!(
            "for i in $(seq 600); do [ -e ",
            $path,
            " ] && break; sleep 0.05; done; "
        )
    };
}

pub const CASES: &[Case] = &[
    sh("curl-loopback", concat!(
        "python3 -u server.py & ", await_path!("ready"),
        "for i in 1 2 3; do curl -s \"http://127.0.0.1:$PORT/file$i\" -o got$i; cmp got$i file$i; done; ",
        "curl -s -d name=value \"http://127.0.0.1:$PORT/post\"; curl -s -o /dev/null -w '%{http_code}\\n' \"http://127.0.0.1:$PORT/none\"; kill $!; wait; rm ready"
    ))
    .setup("for i in 1 2 3; do seq 1 $((i*20000)) >file$i; done; cat >server.py <<'E'\nimport http.server, os\nclass H(http.server.SimpleHTTPRequestHandler):\n    def do_POST(self):\n        b = self.rfile.read(int(self.headers['Content-Length'])); self.send_response(200); self.end_headers(); self.wfile.write(b.upper() + b'\\n')\n    def log_message(self, *a): pass\ns = http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), H)\nopen('ready', 'w'); s.serve_forever()\nE")
    .needs(&["curl", "python3"])
    .core(),
    sh("curl-refused", "curl -s http://127.0.0.1:1/; echo $?; curl -s file:///nowhere; echo $?").needs(&["curl"]).core(),
    sh("redis-commands", concat!(
        "redis-server --port 0 --unixsocket s --save '' --daemonize no >log & ", await_path!("s"),
        "redis-cli -s s <in; redis-cli -s s --no-raw info keyspace | cut -d, -f1; redis-cli -s s shutdown nosave; wait"
    ))
    .setup("{ for i in $(seq 1 300); do echo \"set k$i v$i\"; echo \"lpush l $i\"; echo \"zadd z $i m$i\"; done; printf 'get k77\\nlrange l 0 3\\nzrange z 5 7 withscores\\neval \"return redis.call(\\047incr\\047,KEYS[1])+1\" 1 n\\nexpire k1 100\\ndbsize\\n'; } >in")
    .ignore(&["log"])
    .needs(&["redis-server", "redis-benchmark"])
    .core(),
    sh("redis-benchmark", concat!(
        "redis-server --port 0 --unixsocket s --save '' --appendonly yes --io-threads 2 >log & ", await_path!("s"),
        "redis-benchmark -s s -n 3000 -c 20 -P 4 -q -t set,get,incr,lpush,zadd 2>&1 | tr '\\r' '\\n' | grep 'requests per second' | sed 's/:.*//'; redis-cli -s s llen mylist; redis-cli -s s shutdown nosave; wait"
    ))
    .ignore(&["log", "appendonlydir"])
    .needs(&["redis-server", "redis-benchmark"]),
    sh("redis-save-fork", concat!(
        "redis-server --port 0 --unixsocket s --save '' --rdbchecksum yes >log & ", await_path!("s"),
        "redis-cli -s s debug populate 20000 key 50; redis-cli -s s bgsave; while redis-cli -s s info persistence | grep -q bgsave_in_progress:1; do sleep 0.05; done; redis-cli -s s info persistence | grep bgsave_status; redis-cli -s s shutdown nosave; wait; ",
        "redis-server --port 0 --unixsocket s2 --save '' >log & ", await_path!("s2"), "redis-cli -s s2 dbsize; redis-cli -s s2 shutdown nosave; wait"
    ))
    .ignore(&["log", "dump.rdb"])
    .needs(&["redis-server", "redis-benchmark"]),
    sh("nginx-load", concat!(
        "nginx -p \"$PWD\" -c nginx.conf -e err & ", await_path!("s"),
        "curl -s --unix-socket s --parallel --parallel-max 8 'http://x/file[1-40]' -o 'got#1'; cat got* | md5sum; curl -s --unix-socket s http://x/none -o /dev/null -w '%{http_code}\\n'; nginx -p \"$PWD\" -c nginx.conf -e err -s reload; sleep 0.3; curl -s --unix-socket s http://x/file7 | tail -1; nginx -p \"$PWD\" -c nginx.conf -e err -s quit; wait"
    ))
    .setup("for i in $(seq 1 40); do seq 1 $((i*200)) >file$i; done; mkdir t; cat >nginx.conf <<E\nuser $(id -un);\ndaemon off;\nworker_processes 2;\npid pid;\nevents { worker_connections 64; }\nhttp { access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t; gzip on; sendfile on; server { listen unix:s; root .; } }\nE")
    .ignore(&["err", "pid", "t"])
    .needs(&["nginx", "curl"]),
    sh("memcached-load", concat!("memcached -u \"$(id -un)\" -t 4 -s s & ", await_path!("s"), "python3 load.py; kill -INT $!; wait"))
        .setup("cat >load.py <<'E'\nimport socket, threading\ndef work(n):\n    s = socket.socket(socket.AF_UNIX); s.connect('s'); f = s.makefile('rwb')\n    for i in range(300):\n        v = b'%d:%d' % (n, i) * 20; f.write(b'set k%d-%d 0 0 %d\\r\\n%s\\r\\n' % (n, i, len(v), v)); f.flush(); assert f.readline() == b'STORED\\r\\n'\n        f.write(b'get k%d-%d\\r\\n' % (n, i)); f.flush(); f.readline(); assert f.readline().strip() == v; f.readline()\n    f.write(b'incr c 1\\r\\n'); f.flush(); f.readline()\ns = socket.socket(socket.AF_UNIX); s.connect('s'); s.sendall(b'set c 0 0 1\\r\\n0\\r\\n'); s.recv(99)\nts = [threading.Thread(target=work, args=(n,)) for n in range(6)]; [t.start() for t in ts]; [t.join() for t in ts]\ns.sendall(b'get c\\r\\n'); print(s.recv(99)); s.sendall(b'stats\\r\\n')\nprint([l for l in s.recv(65536).decode().split('\\r\\n') if 'cmd_set' in l or 'threads' in l])\nE")
        .needs(&["memcached", "python3"]),
    sh("openssl-tls", concat!(
        "openssl s_server -accept \"$PORT\" -cert c -key k -rev -quiet >log 2>&1 & sleep 0.5; ",
        "for i in $(seq 60); do (echo hello; sleep 0.3) | openssl s_client -connect \"127.0.0.1:$PORT\" -CAfile c -quiet -no_ign_eof 2>/dev/null >out; grep -q olleh out && break; sleep 0.1; done; cat out; kill $!; wait"
    ))
    .setup("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k -out c -subj /CN=x 2>/dev/null")
    .ignore(&["k", "c", "log"])
    .needs(&["openssl"]),
];
