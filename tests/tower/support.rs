//! Short ways to call by the client of hyper.

use evenkeel::LoadBalancers;
use evenkeel::client::Via;
use evenkeel::client::tower::{Error, HyperClient};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;

pub type Client = HyperClient<Full<Bytes>>;

pub fn client(balancers: &LoadBalancers) -> Client {
    balancers.hyper()
}

pub fn request(method: Method, uri: &str, body: &'static str) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(uri).body(Full::from(body)).unwrap()
}

pub fn get(uri: &str) -> Request<Full<Bytes>> {
    request(Method::GET, uri, "")
}

/// One call whose response is read to its end; who answered.
pub async fn send(http: &Client, method: Method) -> Result<Via, Error> {
    let response = http.request(request(method, "lb://orders/x", "body")).await?;
    let via = response.extensions().get::<Via>().unwrap().clone();
    response.into_body().collect().await.unwrap();
    Ok(via)
}

pub async fn text<B>(response: Response<B>) -> String
where
    B: hyper::body::Body<Error: std::fmt::Debug>,
{
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}
