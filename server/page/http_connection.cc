#include "server/page/http_connection.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace muster {
namespace {

// Time for a request to arrive, and then for its answer to be sent.
constexpr std::chrono::seconds kRequestPatience(3);
constexpr std::chrono::seconds kAnswerPatience(15);
// Connections that are accepted, including those that wait for a thread.
constexpr size_t kMostPresent = 256;

}  // namespace

bool HttpConnections::TakesMoreLocked() const { return closed_ || present_ < kMostPresent; }

void HttpConnections::Arrived() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &HttpConnections::TakesMoreLocked));
  if (++present_ <= kServed) return;
  for (HttpConnection& connection : connections_) {
    if (!connection.waits) continue;
    connection.waits = false;
    return connection.End();
  }
  ++owed_;
}

void HttpConnections::Served() {
  absl::MutexLock lock(&mutex_);
  if (--present_ <= kServed) owed_ = 0;
}

std::list<HttpConnection>::iterator HttpConnections::Add(int socket, SSL_CTX* tls) {
  absl::MutexLock lock(&mutex_);
  return connections_.emplace(connections_.end(), socket, tls, *this);
}

void HttpConnections::Remove(std::list<HttpConnection>::iterator connection) {
  absl::MutexLock lock(&mutex_);
  connections_.erase(connection);
}

bool HttpConnections::BeginWait(HttpConnection& connection) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return false;
  if (owed_ > 0) {
    --owed_;
    return false;
  }
  connection.waits = true;
  return true;
}

void HttpConnections::EndWait(HttpConnection& connection) {
  absl::MutexLock lock(&mutex_);
  connection.waits = false;
}

void HttpConnections::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  for (HttpConnection& connection : connections_) {
    if (connection.waits) connection.End();
  }
}

void HttpConnection::SslDeleter::operator()(SSL* ssl) const { SSL_free(ssl); }

HttpConnection::HttpConnection(int socket, SSL_CTX* tls, HttpConnections& all)
    : socket_(socket), all_(all), until_(std::chrono::steady_clock::now() + kRequestPatience) {
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  if (tls != nullptr) ssl_.reset(SSL_new(tls));
}

HttpConnection::~HttpConnection() {
  // Tells the other side that the answer is complete, if it still listens.
  if (ssl_ != nullptr && SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
  ERR_clear_error();
  close(socket_);
}

bool HttpConnection::Open() {
  if (ssl_ == nullptr) return true;
  if (SSL_set_fd(ssl_.get(), socket_) != 1) return false;
  while (true) {
    ERR_clear_error();
    const int result = SSL_accept(ssl_.get());
    if (result == 1) return true;
    if (!AwaitTls(result)) return false;
  }
}

void HttpConnection::End() { ::shutdown(socket_, SHUT_RDWR); }

bool HttpConnection::is_readable() const {
  if (next_ < filled_) return true;
  return (ssl_ != nullptr && SSL_pending(ssl_.get()) > 0) || Await(POLLIN);
}

bool HttpConnection::is_writable() const { return Await(POLLOUT); }

ssize_t HttpConnection::read(char* bytes, size_t size) {
  if (next_ == filled_ && !Fill()) return -1;
  const size_t taken = std::min(size, filled_ - next_);
  std::memcpy(bytes, buffer_.data() + next_, taken);
  next_ += taken;
  return static_cast<ssize_t>(taken);
}

ssize_t HttpConnection::write(const char* bytes, size_t size) {
  if (!answering_) {
    answering_ = true;
    until_ = std::chrono::steady_clock::now() + kAnswerPatience;
  }
  if (ssl_ == nullptr) {
    return Await(POLLOUT) ? send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
  }
  const int most = static_cast<int>(std::min<size_t>(size, 16 << 10));
  while (true) {
    ERR_clear_error();
    const int sent = SSL_write(ssl_.get(), bytes, most);
    if (sent > 0) return sent;
    if (!AwaitTls(sent)) return -1;
  }
}

bool HttpConnection::Poll(short event, std::chrono::steady_clock::duration patience) const {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  pollfd asked = {.fd = socket_, .events = event, .revents = 0};
  return poll(&asked, 1, static_cast<int>(std::max<int64_t>(ms, 0))) == 1;
}

bool HttpConnection::Await(short event) const {
  if (Poll(event, std::chrono::seconds(0))) return true;
  auto& self = const_cast<HttpConnection&>(*this);
  if (!all_.BeginWait(self)) return false;
  const bool ready = Poll(event, until_ - std::chrono::steady_clock::now());
  all_.EndWait(self);
  return ready;
}

bool HttpConnection::AwaitTls(int result) const {
  const int error = SSL_get_error(ssl_.get(), result);
  // A client that drips records keeps OpenSSL wanting more: the deadline is looked at here, too.
  if (std::chrono::steady_clock::now() > until_) return false;
  if (error == SSL_ERROR_WANT_READ) return Await(POLLIN);
  return error == SSL_ERROR_WANT_WRITE && Await(POLLOUT);
}

bool HttpConnection::Fill() {
  if (filled_ == buffer_.size()) return false;
  char* const begin = buffer_.data() + filled_;
  const size_t room = buffer_.size() - filled_;
  ssize_t got = 0;
  if (ssl_ == nullptr) {
    if (!Await(POLLIN)) return false;
    got = recv(socket_, begin, room, 0);
  } else {
    while (true) {
      ERR_clear_error();
      got = SSL_read(ssl_.get(), begin, static_cast<int>(room));
      if (got > 0 || !AwaitTls(static_cast<int>(got))) break;
    }
  }
  if (got <= 0) return false;
  filled_ += static_cast<size_t>(got);
  return true;
}

}  // namespace muster
