//! The whole program: its binary, with clients and servers of the tests around it.

mod admin;
mod bodies;
mod classes;
mod compressed;
mod convert;
mod grpc;
mod http;
mod limits;
mod logs;
mod mutations;
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
mod two;
mod two_limits;
