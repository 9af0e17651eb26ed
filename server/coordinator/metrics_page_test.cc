#include "server/coordinator/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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
