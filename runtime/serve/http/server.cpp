#include "runtime/serve/http/server.h"

#include <set>

#include "runtime/serve/asio.h"
// Beast after our asio.h, which prepares Boost 1.74 for coroutines.
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "runtime/base/errors.h"

namespace orrery::serve {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using tcp = net::ip::tcp;

std::string error_body(std::string_view message, std::string_view type, int code) {
  return "{\"error\":{\"message\":\"" + std::string(message) + "\",\"type\":\"" +
         std::string(type) + "\",\"param\":null,\"code\":" + std::to_string(code) + "}}";
}

bool is_safe_header_value(std::string_view value) {
  if (value.size() > 256) return false;
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) return false;
  }
  return true;
}

tcp::acceptor listen(net::io_context& context, const std::string& host, int port) {
  ErrorCode error;
  const auto address = net::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) {
    throw InputError({"--host", 0, ""}, "\"" + host + "\"", "an IP address, such as 127.0.0.1");
  }
  if (port < 0 || port > 65535) {
    throw InputError({"--port", 0, ""}, std::to_string(port), "a port from 0 (any) to 65535");
  }
  const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(port));
  tcp::acceptor acceptor(context);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  if (error) {
    const bool taken = error == net::error::address_in_use;
    throw InputError({"--port", 0, ""},
                     "port " + std::to_string(port) + " on " + host + ", " +
                         (taken ? "which another program is using" : error.message()),
                     "a free port: choose one with --port N, or --port 0 for any");
  }
  return acceptor;
}

}  // namespace

void check_port_is_free(const std::string& host, int port) {
  net::io_context context;
  listen(context, host, port);
}

class HttpConnection;

struct HttpServer::Impl {
  Impl(net::io_context& io, const std::string& host, int port, Handler on_request, HttpLimits limit)
      : context(io),
        acceptor(listen(io, host, port)),
        handler(std::move(on_request)),
        limits(limit),
        room(io.get_executor()) {}
  net::io_context& context;
  tcp::acceptor acceptor;
  Handler handler;
  HttpLimits limits;
  AsyncEvent room;  // a connection ended
  std::set<HttpConnection*> connections;
  bool stopping = false;
};

// One client's connection: a loop of requests. Every await is on the io_context's thread.
class HttpConnection final : public HttpExchange,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(tcp::socket socket, std::shared_ptr<HttpServer::Impl> server)
      : stream_(std::move(socket)), server_(std::move(server)) {
    server_->connections.insert(this);
  }
  ~HttpConnection() override {
    server_->connections.erase(this);
    server_->room.notify();
  }

  net::awaitable<void> run() {
    const auto self = shared_from_this();
    ErrorCode error;
    stream_.socket().set_option(tcp::no_delay(true), error);
    while (keep_ && !server_->stopping) {
      if (!co_await read_request()) break;
      watch();
      co_await server_->handler(*this);
      unwatch();
      callback_ = nullptr;
      if (!answered_ || gone_) break;  // the handler gave up, or there is no one to answer
      request_ = {};
    }
    stream_.socket().shutdown(tcp::socket::shutdown_both, error);
    stream_.close();
  }

  // An idle connection is closed; a busy one closes after its answer.
  void stop() {
    if (idle_) stream_.cancel();
  }

  const HttpRequest& request() const override { return request_; }
  bool disconnected() const override { return gone_; }
  void on_disconnect(std::function<void()> callback) override {
    callback_ = std::move(callback);
    if (gone_) lost();
  }

  net::awaitable<void> respond(HttpResponse response) override {
    answered_ = true;
    http::response<http::string_body> out{static_cast<http::status>(response.status), version_};
    set_common(out, response.content_type, response.headers);
    out.body() = std::move(response.body);
    out.prepare_payload();
    if (head_) {
      const auto length = out.body().size();
      out.body().clear();
      out.content_length(length);
    }
    ErrorCode error;
    stream_.expires_after(server_->limits.write);
    if (head_) {
      http::response_serializer<http::string_body> serializer(out);
      serializer.split(true);
      co_await http::async_write_header(stream_, serializer,
                                        net::redirect_error(net::use_awaitable, error));
    } else {
      co_await http::async_write(stream_, out, net::redirect_error(net::use_awaitable, error));
    }
    if (error) lost();
  }

  net::awaitable<bool> start_stream(std::string content_type, Headers headers) override {
    answered_ = true;
    chunked_ = version_ >= 11;
    if (!chunked_) keep_ = false;  // HTTP/1.0: the end of the connection ends the answer
    http::response<http::empty_body> out{http::status::ok, version_};
    headers.emplace_back("Cache-Control", "no-cache");
    headers.emplace_back("X-Accel-Buffering", "no");
    set_common(out, content_type, headers);
    if (chunked_) out.chunked(true);
    http::response_serializer<http::empty_body> serializer(out);
    ErrorCode error;
    stream_.expires_after(server_->limits.write);
    co_await http::async_write_header(stream_, serializer,
                                      net::redirect_error(net::use_awaitable, error));
    if (error) lost();
    co_return !gone_;
  }

  net::awaitable<bool> write(std::string text) override {
    if (gone_) co_return false;
    ErrorCode error;
    stream_.expires_after(server_->limits.write);
    if (chunked_) {
      co_await net::async_write(stream_, http::make_chunk(net::buffer(text)),
                                net::redirect_error(net::use_awaitable, error));
    } else {
      co_await net::async_write(stream_, net::buffer(text),
                                net::redirect_error(net::use_awaitable, error));
    }
    if (error) lost();
    co_return !gone_;
  }

  net::awaitable<void> finish_stream() override {
    if (gone_ || !chunked_) co_return;
    ErrorCode error;
    stream_.expires_after(server_->limits.write);
    co_await net::async_write(stream_, http::make_chunk_last(),
                              net::redirect_error(net::use_awaitable, error));
    if (error) lost();
  }

 private:
  template <class Response>
  void set_common(Response& out, const std::string& content_type, const Headers& headers) {
    out.set(http::field::server, "orrery/" ORRERY_VERSION);
    if (!content_type.empty()) out.set(http::field::content_type, content_type);
    if (!request_.request_id.empty()) out.set("X-Request-Id", request_.request_id);
    for (const auto& [name, value] : headers) out.set(name, value);
    if (server_->stopping) keep_ = false;
    out.keep_alive(keep_);
  }

  // Reads one request whole. False: the connection ends (what had to be said was said).
  net::awaitable<bool> read_request() {
    http::request_parser<http::string_body> parser;
    parser.body_limit(server_->limits.body_bytes);
    parser.header_limit(server_->limits.header_bytes);
    answered_ = false;
    idle_ = true;
    ErrorCode error;
    stream_.expires_after(server_->limits.idle);
    co_await http::async_read_header(stream_, buffer_, parser,
                                     net::redirect_error(net::use_awaitable, error));
    idle_ = false;
    if (!error) {
      request_.received = std::chrono::steady_clock::now();
      version_ = parser.get().version();
      const auto expect = parser.get()[http::field::expect];
      if (beast::iequals(expect, "100-continue")) {
        static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        co_await net::async_write(stream_, net::buffer(kContinue),
                                  net::redirect_error(net::use_awaitable, error));
      }
    }
    if (!error) {
      stream_.expires_after(server_->limits.read);
      co_await http::async_read(stream_, buffer_, parser,
                                net::redirect_error(net::use_awaitable, error));
    }
    if (error) {
      co_await refuse(error);
      co_return false;
    }
    auto message = parser.release();
    keep_ = message.keep_alive();
    head_ = message.method() == http::verb::head;
    request_.method = std::string(message.method_string());
    const std::string_view target(message.target().data(), message.target().size());
    request_.target = std::string(target.substr(0, target.find('?')));
    request_.body = std::move(message.body());
    const auto id = message["X-Request-Id"];
    request_.request_id = is_safe_header_value({id.data(), id.size()}) ? std::string(id) : "";
    co_return true;
  }

  net::awaitable<void> refuse(const ErrorCode& error) {
    keep_ = false;
    HttpResponse response;
    if (error == http::error::body_limit) {
      response.status = 413;
      response.body = error_body(
          "the request body is over " + std::to_string(server_->limits.body_bytes) + " bytes",
          "invalid_request_error", 413);
    } else if (error == http::error::header_limit) {
      response.status = 431;
      response.body = error_body("the request header is too long", "invalid_request_error", 431);
    } else if (error.category() == make_error_code(http::error::end_of_stream).category() &&
               error != http::error::end_of_stream && error != http::error::partial_message) {
      response.status = 400;
      response.body =
          error_body("this is not HTTP: " + error.message(), "invalid_request_error", 400);
    } else {
      co_return;  // closed, timed out, reset
    }
    version_ = 11;
    co_await respond(std::move(response));
    // Take in some of what is still coming, or the reset would reach the client before the answer.
    ErrorCode ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    char rest[4096];
    stream_.expires_after(std::chrono::seconds(2));
    for (int i = 0; i < 4096 && !ignored; ++i) {
      co_await stream_.async_read_some(net::buffer(rest),
                                       net::redirect_error(net::use_awaitable, ignored));
    }
  }

  // Waits for the socket to become readable while the answer is made: end of file is a client that
  // left. Bytes are a pipelined request: they stay where they are, and watching ends.
  void watch() {
    watching_ = true;
    stream_.socket().async_wait(
        tcp::socket::wait_read, [self = shared_from_this()](const ErrorCode& error) {
          if (!std::exchange(self->watching_, false) || error == net::error::operation_aborted) {
            return;
          }
          char byte = 0;
          ErrorCode peeked;
          self->stream_.socket().non_blocking(true, peeked);
          const std::size_t got = self->stream_.socket().receive(net::buffer(&byte, 1),
                                                                 tcp::socket::message_peek, peeked);
          if (got == 0 && peeked != net::error::would_block) self->lost();
        });
  }
  void unwatch() {
    if (!std::exchange(watching_, false)) return;
    ErrorCode ignored;
    stream_.socket().cancel(ignored);
  }
  void lost() {
    gone_ = true;
    keep_ = false;
    if (auto callback = std::exchange(callback_, nullptr)) callback();
  }

  beast::tcp_stream stream_;
  std::shared_ptr<HttpServer::Impl> server_;
  beast::flat_buffer buffer_{64 << 10};
  HttpRequest request_;
  std::function<void()> callback_;
  unsigned version_ = 11;
  bool keep_ = true, head_ = false, idle_ = true, answered_ = false, chunked_ = false,
       gone_ = false, watching_ = false;
};

HttpServer::HttpServer(net::io_context& context, const std::string& host, int port, Handler handler,
                       HttpLimits limits)
    : impl_(std::make_shared<Impl>(context, host, port, std::move(handler), limits)) {
  net::co_spawn(
      context,
      [server = impl_]() -> net::awaitable<void> {
        while (!server->stopping) {
          while (server->connections.size() >= server->limits.connections) {
            co_await server->room.wait();
          }
          ErrorCode error;
          tcp::socket socket = co_await server->acceptor.async_accept(
              net::redirect_error(net::use_awaitable, error));
          if (error == net::error::operation_aborted) break;
          if (error) {  // out of file descriptors, say: do not spin
            co_await sleep_for(std::chrono::milliseconds(20));
            continue;
          }
          auto connection = std::make_shared<HttpConnection>(std::move(socket), server);
          net::co_spawn(
              server->context, [connection] { return connection->run(); }, net::detached);
        }
      },
      net::detached);
}

HttpServer::~HttpServer() { stop_accepting(); }
int HttpServer::port() const {
  ErrorCode ignored;
  return impl_->acceptor.local_endpoint(ignored).port();
}
std::size_t HttpServer::connections() const { return impl_->connections.size(); }
void HttpServer::stop_accepting() {
  if (std::exchange(impl_->stopping, true)) return;
  ErrorCode ignored;
  impl_->acceptor.close(ignored);
  for (HttpConnection* connection : impl_->connections) connection->stop();
}

}  // namespace orrery::serve
