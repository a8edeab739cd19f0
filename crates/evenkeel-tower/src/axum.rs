//! The extractor for axum's handlers.

use axum_core::extract::FromRequestParts;
use evenkeel::Class;
use http::request::Parts;

/// What has a class: a tenant, a plan, a user.
pub trait HasClass {
    /// `None`: that in which the task is.
    fn class(&self) -> Option<Class>;
}

/// Extracts a `T`, and puts the request into its class from then on.
///
/// The task stays in that class until the request has ended if a
/// [`ClassLayer`](crate::ClassLayer) is around the service (one that gives no class will do), and
/// otherwise until something changes the class again.
///
/// # Examples
///
/// ```
/// use axum::{Router, extract::FromRequestParts, http::request::Parts, routing::get};
/// use evenkeel::Class;
/// use evenkeel_tower::{ClassLayer, axum::{HasClass, InClass}};
///
/// struct Tenant { pays: bool }
///
/// impl HasClass for Tenant {
///     fn class(&self) -> Option<Class> {
///         (!self.pays).then_some(Class::BULK)
///     }
/// }
///
/// impl<S: Sync> FromRequestParts<S> for Tenant {
///     type Rejection = std::convert::Infallible;
///
///     async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
///         Ok(Tenant { pays: parts.headers.contains_key("x-paid") })
///     }
/// }
///
/// async fn report(InClass(tenant): InClass<Tenant>) -> String {
///     format!("pays: {}", tenant.pays)
/// }
///
/// let service: Router = Router::new()
///     .route("/report", get(report))
///     .layer(ClassLayer::new(|_: &http::Request<_>| None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InClass<T>(pub T);

impl<S, T> FromRequestParts<S> for InClass<T>
where
    S: Send + Sync,
    T: FromRequestParts<S> + HasClass + Send,
{
    type Rejection = T::Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, T::Rejection> {
        let value = T::from_request_parts(parts, state).await?;
        if let Some(class) = value.class() {
            crate::enter(class).await;
        }
        Ok(Self(value))
    }
}
