//! System calls about waiting and time that newer architectures replace by more general ones.

use crate::sys::linux;

pub const TIME: u32 = linux::__NR_time;
pub const PAUSE: u32 = linux::__NR_pause;
pub const POLL: u32 = linux::__NR_poll;
pub const SELECT: u32 = linux::__NR_select;
pub const EPOLL_WAIT: u32 = linux::__NR_epoll_wait;
pub const OPEN: u32 = linux::__NR_open;
pub const STAT: u32 = linux::__NR_stat;
pub const LSTAT: u32 = linux::__NR_lstat;
pub const ALARM: u32 = linux::__NR_alarm;
