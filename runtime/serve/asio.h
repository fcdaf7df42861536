// Boost.Asio as this project uses it: C++20 coroutines on one io_context a process.
// Boost 1.74 (Debian 12) needs two kindnesses, hence this header instead of <boost/asio.hpp>:
// its awaitable.hpp uses std::exchange without <utility>, and it knows coroutines under Clang only
// through <experimental/coroutine>, which libstdc++ does not have. It also has no awaitable
// operators, no channels and no per-operation cancellation: AsyncEvent below is what we use.
#pragma once
#include <chrono>
#include <utility>
#if defined(__clang__) && !defined(__cpp_impl_coroutine)
#define __cpp_impl_coroutine 201902L
#endif
#if defined(__clang__)
#define BOOST_ASIO_HAS_CO_AWAIT 1
#define BOOST_ASIO_HAS_STD_COROUTINE 1
#endif
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace orrery::serve {

namespace net = boost::asio;
using ErrorCode = boost::system::error_code;

// One coroutine waits, anyone on the same thread notifies. A notification that comes before the
// wait is kept; several are one. Not thread-safe: use it on the io_context's thread only.
class AsyncEvent {
 public:
  explicit AsyncEvent(const net::any_io_executor& executor) : timer_(executor) {
    timer_.expires_at(net::steady_timer::time_point::max());
  }
  void notify() {
    set_ = true;
    timer_.cancel();
  }
  net::awaitable<void> wait() {
    ErrorCode ignored;
    if (!set_) co_await timer_.async_wait(net::redirect_error(net::use_awaitable, ignored));
    set_ = false;
  }
  // False when the time ran out first.
  net::awaitable<bool> wait_for(std::chrono::nanoseconds limit) {
    ErrorCode ignored;
    if (!set_) {
      timer_.expires_after(limit);
      co_await timer_.async_wait(net::redirect_error(net::use_awaitable, ignored));
      timer_.expires_at(net::steady_timer::time_point::max());
    }
    co_return std::exchange(set_, false);
  }

 private:
  net::steady_timer timer_;
  bool set_ = false;
};

// Sleeps on the io_context.
inline net::awaitable<void> sleep_for(std::chrono::nanoseconds duration) {
  net::steady_timer timer(co_await net::this_coro::executor, duration);
  ErrorCode ignored;
  co_await timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
}

}  // namespace orrery::serve
