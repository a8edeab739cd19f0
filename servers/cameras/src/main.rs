//! The command line of the camera server.

fn main() {
    println!("evenkeel-cameras");
}
