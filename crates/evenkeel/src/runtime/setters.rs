//! The setters of builders, written once.

/// Defines setters of `$builder`: each sets a field to a value made of its argument, and returns
/// the builder for the next call.
macro_rules! setters {
    (
        $builder:ident;
        $(
            $(#[$doc:meta])*
            $setter:ident($argument:ident: $type:ty) => $($field:ident).+ = $value:expr;
        )*
    ) => {
        impl $builder {$(
            $(#[$doc])*
            pub fn $setter(&mut self, $argument: $type) -> &mut Self {
                self.$($field).+ = $value;
                self
            }
        )*}
    };
}

pub(crate) use setters;
