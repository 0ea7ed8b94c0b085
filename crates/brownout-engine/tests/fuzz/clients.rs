//! Targets that are servers: what clients send is the input.

use crate::fixture::{Target, content, run, word};
use brownout_engine::fuzz::{CopyEnd, ForkPoint, FuzzServer, InputChannel, Obstacle};

/// Counts connections in the first word of the pool and sums up their bytes in the second one. Ends when its handler of `SIGTERM` has
/// written to a pipe, which it never empties. `q` exits, and `i` begins to ignore the signal.
const SERVER: &str = "
#include <poll.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <sys/un.h>
static int wake[2];
static void end(int signal) { write(wake[1], \"x\", 1); }
static int at_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(0)};
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (void *)&address, sizeof address) || listen(listener, 5)) _exit(90);
  return listener;
}
static int at_path(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, path);
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, (void *)&address, sizeof address) || listen(listener, 5)) _exit(91);
  return listener;
}
static void *serve(void *at) {
  struct pollfd polled[3] = {{(long)at, POLLIN}, {wake[0], POLLIN}, {-1, POLLIN}};
  for (;;) {
    if (poll(polled, 3, -1) < 0) continue;
    if (polled[1].revents) exit(5);
    if (polled[0].revents && polled[2].fd < 0) {
      pool[0]++; persist(pool);
      polled[2].fd = accept(polled[0].fd, 0, 0);
    } else if (polled[2].revents) {
      unsigned char byte;
      if (read(polled[2].fd, &byte, 1) < 1) { close(polled[2].fd); polled[2].fd = -1; continue; }
      pool[1] += byte; persist(pool + 1);
      if (byte == 'q') exit(7);
      if (byte == 'i') signal(SIGTERM, SIG_IGN);
    }
  }
}
static void begin(void) { pipe(wake); signal(SIGTERM, end); }
";

fn server(listen: &str, serve: &str) -> Target {
    let statements = format!("open_pool(argv[1]); begin(); long listener = {listen}; {serve}");
    let mut target = Target::new(SERVER, &statements);
    target.options.input = InputChannel::Clients(target.beside("input"));
    target
}

/// How the server has ended, its connections, and the sum of their bytes.
fn serve(server: &mut FuzzServer, input: &[u8]) -> (CopyEnd, u64, u64) {
    let end = run(server, input).end;
    let files = server.files().unwrap();
    let pool = files[0].as_ref().unwrap();
    (end, word(pool, 0), word(pool, 1))
}

/// Executions of a server with these words in its pool, in any order.
fn check_executions(server: &mut FuzzServer) {
    let asked = CopyEnd::Exited(5);
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum();
    for _ in 0..2 {
        assert_eq!(serve(server, b"ab"), (asked, 1, sum(b"ab")));
        assert_eq!(serve(server, b""), (asked, 1, 0));
        let divided = b"ab\n%%\nc\n%%\n";
        assert_eq!(serve(server, divided), (asked, 3, sum(b"ab\nc\n")));
        // The second connection is never accepted, and must not be the first one of the next execution.
        assert_eq!(
            serve(server, b"q\n%%\nz"),
            (CopyEnd::Exited(7), 1, sum(b"q"))
        );
        // It does not react to being asked, and is killed. That is no failure of it.
        assert_eq!(serve(server, b"i"), (CopyEnd::Exited(0), 1, sum(b"i")));
    }
}

#[test]
fn a_server_is_copied_where_it_waits_for_its_first_client() {
    let target = server("at_port()", "serve((void *)listener);");
    let mut waiting = target.start();
    assert_eq!(waiting.fork_point(), ForkPoint::Input);
    check_executions(&mut waiting);
    waiting
        .set_image(&[Some(content(&[40, 100], 65536))])
        .unwrap();
    assert_eq!(serve(&mut waiting, b"\x02"), (CopyEnd::Exited(5), 41, 102));
}

#[test]
fn a_server_with_threads_has_clients_too() {
    let threads = "pthread_t thread; pthread_create(&thread, 0, serve, (void *)listener); pthread_join(thread, 0);";
    let target = server("at_port()", threads);
    let mut waiting = target.start();
    assert_eq!(
        waiting.fork_point(),
        ForkPoint::BeforeFiles(Obstacle::Threads(2))
    );
    check_executions(&mut waiting);
}

#[test]
fn a_server_can_listen_at_a_path() {
    let mut target = server("at_path(argv[2])", "serve((void *)listener);");
    let path = target.beside("socket");
    target.options.command.push(path.into());
    check_executions(&mut target.start());
}

#[test]
fn a_program_that_never_listens_does_not_use_the_input() {
    let mut target = Target::new("", "open_pool(argv[1]); pool[0] = 1; persist(pool);");
    target.options.input = InputChannel::Clients(target.beside("input"));
    let mut waiting = target.start();
    let execution = waiting.execute(b"ab").unwrap();
    assert!(!execution.used_input());
}
