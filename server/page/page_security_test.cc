#include "server/page/page_security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<absl::string_view>;

const std::vector<std::string>& Names() {
  static const auto& names = *new std::vector<std::string>{"muster.example", "page"};
  return names;
}

TEST(CheckHostTest, TakesAddressesLoopbackNamesAndItsOwn) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:80", "10.1.2.3:7003", "[::1]", "[::1]:9",
                           "[2001:db8::1]:443", "localhost", "LOCALHOST:1", "a.localhost:65535",
                           "muster.example", "Muster.Example:7003", "page"}) {
    EXPECT_TRUE(CheckHost(Values{host}, Names()).ok()) << host;
  }
}

TEST(CheckHostTest, RefusesOtherNames) {
  for (const char* host :
       {"attacker.example", "attacker.example:7003", "localhost.attacker.example", "notlocalhost",
        "localhost.", "127.0.0.1.attacker.example", "127.1", "0x7f000001", "xmuster.example",
        "muster.example.", "a.muster.example"}) {
    const absl::Status status = CheckHost(Values{host}, Names());
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << host;
    EXPECT_THAT(status.message(), HasSubstr("--page-host")) << host;
  }
}

TEST(CheckHostTest, RefusesWhatIsNoHost) {
  for (const char* host :
       {"", ":80", "a:b", "localhost:", "localhost:99999", "localhost:-1", "localhost:+1", "a b",
        "[::1", "::1", "[localhost]", "[::1]x", "user@localhost", "localhost/", "localhost,a",
        "localhost:80:80", "http://localhost"}) {
    EXPECT_EQ(CheckHost(Values{host}, Names()).code(), absl::StatusCode::kInvalidArgument) << host;
  }
  EXPECT_EQ(CheckHost(Values{}, Names()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckHost(Values{"localhost", "localhost"}, Names()).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CheckTokenTest, TakesTheTokenAlone) {
  constexpr char kToken[] = "0123456789abcdef";
  for (const char* good :
       {"Bearer 0123456789abcdef", "bearer 0123456789abcdef", "BEARER   0123456789abcdef"}) {
    EXPECT_TRUE(CheckToken(Values{good}, kToken).ok()) << good;
  }
  for (const char* bad :
       {"", "Bearer", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef",
        "Bearer 0123456789abcdeg", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0",
        "Bearer 0123456789ABCDEF", "Bearer 0123456789abcdef x"}) {
    EXPECT_EQ(CheckToken(Values{bad}, kToken).code(), absl::StatusCode::kUnauthenticated) << bad;
  }
  const absl::string_view good = "Bearer 0123456789abcdef";
  EXPECT_EQ(CheckToken(Values{}, kToken).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CheckToken(Values{good, good}, kToken).code(), absl::StatusCode::kUnauthenticated);
}

TEST(CheckOriginTest, TakesPagesOfTheSameHostAndPort) {
  EXPECT_TRUE(CheckOrigin(Values{"http://localhost:80"}, "localhost:80").ok());
  EXPECT_TRUE(CheckOrigin(Values{"https://Muster.example"}, "muster.example").ok());
  for (const char* bad : {"", "null", "localhost:80", "http://localhost", "http://localhost:81",
                          "http://a:80", "http://localhost:80/", "http://localhost:80@a",
                          "ftp://localhost:80", "http://http://localhost:80"}) {
    EXPECT_EQ(CheckOrigin(Values{bad}, "localhost:80").code(), absl::StatusCode::kPermissionDenied)
        << bad;
  }
  const absl::string_view good = "http://localhost:80";
  EXPECT_FALSE(CheckOrigin(Values{}, "localhost:80").ok());
  EXPECT_FALSE(CheckOrigin(Values{good, good}, "localhost:80").ok());
}

TEST(IsJsonTest, KnowsJson) {
  for (const char* good : {"application/json", "Application/JSON",
                           "application/json; charset=utf-8", "application/json;charset=UTF-8"}) {
    EXPECT_TRUE(IsJson(Values{good})) << good;
  }
  // The first three are what a form of another page can send without asking.
  for (const char* bad : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                          "", "application/jsonp", "application/json; charset=utf-16",
                          "application/json; boundary=x", "text/plain; application/json"}) {
    EXPECT_FALSE(IsJson(Values{bad})) << bad;
  }
  EXPECT_FALSE(IsJson(Values{}));
  EXPECT_FALSE(IsJson(Values{"application/json", "application/json"}));
}

}  // namespace
}  // namespace muster
