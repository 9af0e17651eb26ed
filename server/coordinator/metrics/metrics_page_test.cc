#include "server/coordinator/metrics/metrics_page.h"

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
#include "common/transport/descriptor.h"
#include "httplib.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

MetricsPage::Text Says(const std::string& text) {
  return [text] { return text; };
}

TEST(MetricsPageTest, ServesItsTextAndNothingElse) {
  const auto page = MetricsPage::Create("127.0.0.1:0", Says("muster_jobs 3\n"));
  ASSERT_TRUE(page.ok()) << page.status();
  httplib::Client client("http://" + (*page)->address());
  const httplib::Result metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->status, 200);
  EXPECT_EQ(metrics->body, "muster_jobs 3\n");
  EXPECT_THAT(metrics->get_header_value("Content-Type"), StartsWith("text/plain; version=0.0.4"));
  const httplib::Result other = client.Get("/");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->status, 404);
}

// A connection to the page, over which `text` has been sent.
Descriptor Connect(const std::string& address, const std::string& text) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
  return socket;
}

// All that the page says until it closes the connection.
std::string Hear(const Descriptor& socket) {
  std::string heard;
  char bytes[4096];
  ssize_t got = 0;
  while ((got = recv(socket.get(), bytes, sizeof(bytes), 0)) > 0) heard.append(bytes, got);
  return heard;
}

TEST(MetricsPageTest, RefusesBodiesUnread) {
  const auto page = MetricsPage::Create("127.0.0.1:0", Says("x"));
  ASSERT_TRUE(page.ok()) << page.status();
  // Would be waited for if it were read.
  const Descriptor post = Connect(
      (*page)->address(), "POST /metrics HTTP/1.1\r\nContent-Length: 3145728000\r\n\r\nbegin");
  EXPECT_THAT(Hear(post), StartsWith("HTTP/1.1 405"));
  const Descriptor chunked =
      Connect((*page)->address(), "PUT /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_THAT(Hear(chunked), StartsWith("HTTP/1.1 405"));
}

TEST(MetricsPageTest, RefusesRangesAndEndlessHeads) {
  const auto page = MetricsPage::Create("127.0.0.1:0", Says(std::string(1500, 'x')));
  ASSERT_TRUE(page.ok()) << page.status();
  std::string ranges = "0-";
  for (int i = 0; i < 1000; ++i) ranges += ",0-";
  const std::string heard = Hear(
      Connect((*page)->address(), "GET /metrics HTTP/1.1\r\nRange: bytes=" + ranges + "\r\n\r\n"));
  EXPECT_THAT(heard, StartsWith("HTTP/1.1 416"));
  EXPECT_LT(heard.size(), 1000u);
  // More than a request may have, without an end: answered with an error or with nothing.
  const std::string endless = Hear(Connect((*page)->address(), std::string(20'000, 'G')));
  EXPECT_THAT(endless, testing::Not(HasSubstr("200")));
}

TEST(MetricsPageTest, ThoseWhoDawdleKeepNobodyOut) {
  const auto page = MetricsPage::Create("127.0.0.1:0", Says("muster_jobs 3\n"));
  ASSERT_TRUE(page.ok()) << page.status();
  std::vector<Descriptor> dawdling;
  for (int i = 0; i < 200; ++i) dawdling.push_back(Connect((*page)->address(), "GET /m"));
  const httplib::Result metrics = httplib::Client("http://" + (*page)->address()).Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->body, "muster_jobs 3\n");
  // Each is ended, whoever drips on: the first by those that came after it, the last in time.
  EXPECT_EQ(Hear(dawdling.front()), "");
  for (const Descriptor& last : dawdling) Hear(last);
}

TEST(MetricsPageTest, TextThatIsNotToBeHadIsTriedAgain) {
  const auto page = MetricsPage::Create(
      "127.0.0.1:0", [] { return absl::UnavailableError("the coordinator is stopping"); });
  ASSERT_TRUE(page.ok()) << page.status();
  const httplib::Result metrics = httplib::Client("http://" + (*page)->address()).Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->status, 503);
  EXPECT_THAT(metrics->body, HasSubstr("stopping"));
}

TEST(MetricsPageTest, RefusesAddressesThatItCannotListenOn) {
  for (const std::string address : {"9100", ":9100", "localhost:", "localhost:99999", "a:b"}) {
    const auto page = MetricsPage::Create(address, Says(""));
    EXPECT_EQ(page.status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
  const auto first = MetricsPage::Create("127.0.0.1:0", Says(""));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = MetricsPage::Create((*first)->address(), Says(""));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable) << second.status();
  EXPECT_THAT(second.status().message(), HasSubstr((*first)->address()));
}

TEST(MetricsPageTest, GivesItsPortBack) {
  // A loopback address that nothing else here listens on, so that nobody takes the port meanwhile.
  std::string address = absl::StrCat("127.9.", getpid() >> 8 & 255, ".", getpid() & 255, ":0");
  for (int i = 0; i < 20; ++i) {
    const auto page = MetricsPage::Create(address, Says("x"));
    ASSERT_TRUE(page.ok()) << page.status();
    address = (*page)->address();
    ASSERT_TRUE(httplib::Client("http://" + address).Get("/metrics"));
  }
}

}  // namespace
}  // namespace muster
