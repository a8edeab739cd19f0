//! What SQLx's own tests ask of the package `sqlx-test`: connections to the database that
//! `DATABASE_URL` names.

use sqlx_core::connection::Connection;
use sqlx_core::database::Database;
use sqlx_core::error::Error;
use sqlx_core::pool::Pool;

/// A new connection.
///
/// # Errors
///
/// If no database is named, or it cannot be reached.
pub async fn new<Of: Database>() -> Result<Of::Connection, Error> {
    Of::Connection::connect(&url()?).await
}

/// A new pool of connections.
///
/// # Errors
///
/// As for [`new`].
pub async fn pool<Of: Database>() -> Result<Pool<Of>, Error> {
    Pool::connect(&url()?).await
}

/// Would read the environment from a file, and set a log up. Here the environment is there.
pub fn setup_if_needed() {}

fn url() -> Result<String, Error> {
    std::env::var("DATABASE_URL").map_err(|error| Error::Configuration(error.into()))
}
