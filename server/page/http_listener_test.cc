#include "server/page/http_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/rpc/certificates_for_testing.h"
#include "common/transport/descriptor.h"
#include "httplib.h"
#include "server/page/patient_listener.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Says the same to everybody; a POST gets its body back.
class FakeService final : public HttpService {
 public:
  explicit FakeService(std::string text) : text_(std::move(text)) {}

  std::optional<HttpAnswer> Refuse(const HttpRequest& request) override {
    if (request.method == "PUT") return HttpAnswer{.status = 405};
    if (request.target == "/unread") return HttpAnswer{.status = 403};
    return std::nullopt;
  }

  HttpAnswer Answer(const HttpRequest& request) override {
    return {.content_type = "text/plain",
            .body = request.method == "POST" ? request.body : text_,
            .headers = {{"X-Length", absl::StrCat(request.target.size())}}};
  }

 private:
  const std::string text_;
};

class HttpListenerTest : public ::testing::Test {
 protected:
  void Start(const std::string& text) {
    service_ = std::make_unique<FakeService>(text);
    auto listener = HttpListener::Create({.listen = "127.0.0.1:0"}, *service_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  const std::string& address() const { return listener_->address(); }

  // Returns a connection to the listener, over which `text` has been sent.
  Descriptor Connect(const std::string& text) const {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port =
        htons(static_cast<uint16_t>(std::stoi(address().substr(address().rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    return socket;
  }

  std::unique_ptr<FakeService> service_;
  std::unique_ptr<HttpListener> listener_;
};

// Returns all that the listener says until it closes the connection.
std::string Hear(const Descriptor& socket) {
  std::string heard;
  char bytes[4096];
  ssize_t got = 0;
  while ((got = recv(socket.get(), bytes, sizeof(bytes), 0)) > 0) heard.append(bytes, got);
  return heard;
}

TEST_F(HttpListenerTest, AnswersWithSecurityHeaders) {
  Start("hello");
  httplib::Client client("http://" + address());
  const httplib::Result got = client.Get("/a%20b?c=d");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, 200);
  EXPECT_EQ(got->body, "hello");
  EXPECT_EQ(got->get_header_value("Content-Type"), "text/plain");
  EXPECT_EQ(got->get_header_value("X-Length"), absl::StrCat(sizeof("/a%20b?c=d") - 1));
  EXPECT_EQ(got->get_header_value("Connection"), "close");
  // What is no HTTP gets them, too.
  const std::string malformed = Hear(Connect("GET\r\n\r\n"));
  for (const auto& [name, value] : {std::pair{"Content-Security-Policy", "default-src 'none'"},
                                    {"Content-Security-Policy", "frame-ancestors 'none'"},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"X-Frame-Options", "DENY"},
                                    {"Referrer-Policy", "no-referrer"}}) {
    EXPECT_THAT(got->get_header_value(name), HasSubstr(value));
    EXPECT_THAT(malformed, HasSubstr(absl::StrCat(name, ": ")));
  }
  EXPECT_THAT(malformed, StartsWith("HTTP/1.1 400"));
  for (const auto& [name, value] : got->headers) {
    EXPECT_THAT(name, Not(StartsWith("Access-Control-"))) << value;
  }
}

TEST_F(HttpListenerTest, AHeadHasNoBody) {
  Start("hello");
  const std::string heard = Hear(Connect("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_THAT(heard, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(heard, HasSubstr("Content-Length: 5"));
  EXPECT_THAT(heard, testing::EndsWith("\r\n\r\n"));
}

TEST_F(HttpListenerTest, CompressesWithGzipAlone) {
  const std::string text(10'000, 'x');
  Start(text);
  httplib::Client client("http://" + address());
  const httplib::Result packed = client.Get("/", {{"Accept-Encoding", "gzip, deflate, br"}});
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->get_header_value("Content-Encoding"), "gzip");
  EXPECT_EQ(packed->body, text);
  EXPECT_THAT(Hear(Connect("GET / HTTP/1.1\r\nAccept-Encoding: br\r\n\r\n")), HasSubstr(text));
}

TEST_F(HttpListenerTest, RefusesBodiesUnread) {
  Start("x");
  // Would be waited for if it were read.
  const Descriptor post =
      Connect("POST /unread HTTP/1.1\r\nContent-Length: 3145728000\r\n\r\nbegin");
  EXPECT_THAT(Hear(post), StartsWith("HTTP/1.1 403"));
  const Descriptor chunked = Connect("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_THAT(Hear(chunked), StartsWith("HTTP/1.1 405"));
}

TEST_F(HttpListenerTest, ReadsSmallBodiesAlone) {
  Start("x");
  httplib::Client client("http://" + address());
  const httplib::Result small = client.Post("/", std::string(9 << 10, 'b'), "text/plain");
  ASSERT_TRUE(small);
  EXPECT_EQ(small->body, std::string(9 << 10, 'b'));
  const httplib::Result large = client.Post("/", std::string((9 << 10) + 1, 'b'), "text/plain");
  ASSERT_TRUE(large);
  EXPECT_EQ(large->status, 413);
  EXPECT_EQ(large->body, "");
}

TEST_F(HttpListenerTest, KnowsNoRangesAndNoEndlessHeads) {
  const std::string text(1500, 'x');
  Start(text);
  std::string ranges = "0-";
  for (int i = 0; i < 1000; ++i) ranges += ",0-";
  const std::string heard = Hear(Connect("GET / HTTP/1.1\r\nRange: bytes=" + ranges + "\r\n\r\n"));
  EXPECT_THAT(heard, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(heard, testing::EndsWith("\r\n\r\n" + text));
  // More than a request may have, without an end: answered with an error or with nothing.
  EXPECT_THAT(Hear(Connect(std::string(20'000, 'G'))), Not(HasSubstr("200")));
  std::string head = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 1000; ++i)
    absl::StrAppend(&head, "X-", i, ": ", std::string(20, 'h'), "\r\n");
  EXPECT_THAT(Hear(Connect(head + "\r\n")), Not(HasSubstr("200")));
}

TEST_F(HttpListenerTest, ThoseWhoDawdleKeepNobodyOut) {
  Start("hello");
  std::vector<Descriptor> dawdling;
  for (int i = 0; i < 400; ++i) dawdling.push_back(Connect("GET /m"));
  const httplib::Result got = httplib::Client("http://" + address()).Get("/");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->body, "hello");
  // Each is ended, whoever drips on: the first by those that came after it, the last in time.
  EXPECT_EQ(Hear(dawdling.front()), "");
  for (const Descriptor& last : dawdling) Hear(last);
}

TEST_F(HttpListenerTest, AClientThatReadsNothingKeepsNobodyOut) {
  Start(std::string(64 << 20, 'x'));
  std::vector<Descriptor> deaf;
  for (int i = 0; i < 4; ++i) deaf.push_back(Connect("GET / HTTP/1.1\r\n\r\n"));
  const std::string heard = Hear(Connect("HEAD / HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(heard, StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpListenerTest, RefusesAddressesThatItCannotListenOn) {
  Start("x");
  for (const std::string listen : {"9100", ":9100", "localhost:", "localhost:99999", "a:b"}) {
    const auto listener = HttpListener::Create({.listen = listen}, *service_);
    EXPECT_EQ(listener.status().code(), absl::StatusCode::kInvalidArgument) << listen;
  }
  const auto second = HttpListener::Create({.listen = address()}, *service_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable) << second.status();
  EXPECT_THAT(second.status().message(), HasSubstr(address()));
}

TEST_F(HttpListenerTest, GivesItsPortBack) {
  FakeService service("x");
  // A loopback address that nothing else here listens on, so that nobody takes the port meanwhile.
  std::string listen = absl::StrCat("127.9.", getpid() >> 8 & 255, ".", getpid() & 255, ":0");
  for (int i = 0; i < 20; ++i) {
    const auto listener = HttpListener::Create({.listen = listen}, service);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listen = (*listener)->address();
    ASSERT_TRUE(httplib::Client("http://" + listen).Get("/"));
  }
}

TEST_F(HttpListenerTest, APatientListenerBeginsOnceThePortIsFree) {
  Start("the port's first owner");
  FakeService service("patient");
  absl::Notification served;
  absl::Status waits;
  const auto patient =
      PatientListener::Create({.listener = {.listen = address()},
                               .interval = absl::Milliseconds(1),
                               .served = [&served](const std::string&) { served.Notify(); },
                               .waits = [&waits](const absl::Status& status) { waits = status; }},
                              service);
  ASSERT_TRUE(patient.ok()) << patient.status();
  EXPECT_THAT(waits.message(), HasSubstr(address()));
  EXPECT_FALSE(served.HasBeenNotified());
  httplib::Client client("http://" + address());
  EXPECT_EQ(client.Get("/")->body, "the port's first owner");
  listener_.reset();
  served.WaitForNotification();
  EXPECT_EQ(client.Get("/")->body, "patient");
}

TEST_F(HttpListenerTest, APatientListenerEndsWhileItWaits) {
  Start("the port's owner");
  FakeService service("patient");
  ASSERT_TRUE(PatientListener::Create({.listener = {.listen = address()}}, service).ok());
  EXPECT_EQ(PatientListener::Create({.listener = {.listen = "nowhere"}}, service).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(HttpListenerTest, SpeaksTlsAloneWithTheDaemonsCertificate) {
  CertificatesForTesting authority(testing::TempDir(), "page");
  FakeService service(std::string(100'000, 'x'));
  const TlsFiles files = authority.Issue("coordinator");
  const auto listener = HttpListener::Create({.listen = "127.0.0.1:0", .tls = files}, service);
  ASSERT_TRUE(listener.ok()) << listener.status();
  httplib::Client client("https://" + (*listener)->address());
  client.set_ca_cert_path(files.authority.c_str());
  // A browser has no certificate of the cluster.
  const httplib::Result got = client.Get("/");
  ASSERT_TRUE(got) << httplib::to_string(got.error());
  EXPECT_EQ(got->body, std::string(100'000, 'x'));
  EXPECT_FALSE(httplib::Client("http://" + (*listener)->address()).Get("/"));
  // One who does not know the authority does not believe the listener.
  EXPECT_FALSE(httplib::Client("https://" + (*listener)->address()).Get("/"));
}

TEST_F(HttpListenerTest, RefusesCertificatesThatNobodyWouldBelieve) {
  CertificatesForTesting authority(testing::TempDir(), "expired");
  FakeService service("x");
  const TlsFiles expired =
      authority.Issue("coordinator", CertificatesForTesting::Validity::kExpired);
  const auto listener = HttpListener::Create({.listen = "127.0.0.1:0", .tls = expired}, service);
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kFailedPrecondition) << listener.status();
}

}  // namespace
}  // namespace muster
