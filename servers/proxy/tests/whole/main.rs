//! The whole program: its binary, with clients and servers of the tests around it.

mod admin;
mod bodies;
mod classes;
mod compressed;
mod convert;
mod http;
mod limits;
mod logs;
mod mutations;
mod names;
mod operators;
mod outliers;
mod pools;
mod readings;
mod refused;
mod reload;
mod rules;
mod support;
mod tcp;
mod tls;
mod tls_ends;
mod tls_servers;
mod upgrade;
mod upgrade_fails;
mod watch;
