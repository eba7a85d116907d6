use std::pin::Pin;

/// A boxed future, as slow paths return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
