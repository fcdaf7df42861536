// HTTP/1.1 server on Boost.Beast: connections, keep-alive, limits, timeouts, chunked streams.
// It knows nothing of models; a handler answers each request. Beast's headers stay in the .cpp.
//
// Laws: a connection keeps nothing of a request that was answered; a client that goes away is
// noticed while its answer is awaited, not only at the next write; a client that stops reading
// holds at most one write and is dropped after the write limit; the handler answers exactly once.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/serve/asio.h"

namespace orrery::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method, target;  // target: path without the query
  std::string body, request_id;
  std::chrono::steady_clock::time_point received;  // when its header was complete
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
};

// One request and the way to answer it.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;
  // Either this …
  virtual net::awaitable<void> respond(HttpResponse response) = 0;
  // … or these three. write() returns false once the client is gone; then only return.
  virtual net::awaitable<bool> start_stream(std::string content_type, Headers headers) = 0;
  virtual net::awaitable<bool> write(std::string text) = 0;
  virtual net::awaitable<void> finish_stream() = 0;
  // Called once on the io_context's thread when the client goes away while an answer is awaited.
  virtual void on_disconnect(std::function<void()> callback) = 0;
  virtual bool disconnected() const = 0;
};

struct HttpLimits {
  std::uint64_t body_bytes = 8 << 20;  // 413 above
  std::uint32_t header_bytes = 32 << 10;
  std::size_t connections = 8192;  // accept waits above
  std::chrono::seconds idle{75};   // between requests of a kept connection
  std::chrono::seconds read{30};   // for one request to arrive whole
  std::chrono::seconds write{30};  // for a client to take one write
};

class HttpServer {
 public:
  using Handler = std::function<net::awaitable<void>(HttpExchange&)>;
  // Listens at once. Throws InputError naming the port when it is taken.
  HttpServer(net::io_context& context, const std::string& host, int port, Handler handler,
             HttpLimits limits = {});
  ~HttpServer();
  int port() const;  // the one asked for, or the one the system chose for 0
  std::size_t connections() const;
  // No new connections; kept ones close after their answer, idle ones at once.
  void stop_accepting();

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

// Throws InputError (exit 2) naming the port and how to choose another when it is taken.
void check_port_is_free(const std::string& host, int port);

}  // namespace orrery::serve
