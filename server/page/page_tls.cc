#include "server/page/page_tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {

void SslContextDeleter::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }

absl::StatusOr<SslContext> MakePageTls(const TlsFiles& files) {
  if (files.None()) return SslContext();
  // Finds every mistake in the files, with an error for people.
  MUSTER_RETURN_IF_ERROR(ReadTlsFiles(files, TlsUse::kCallsAndServes).status());
  SslContext context(SSL_CTX_new(TLS_server_method()));
  const bool made =
      context != nullptr && SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1 &&
      SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) == 1;
  if (!made) {
    const char* const reason = ERR_reason_error_string(ERR_get_error());
    return absl::FailedPreconditionError(
        absl::StrCat("the page cannot use the certificate ", files.certificate, ": ",
                     reason == nullptr ? "unknown error of OpenSSL" : reason));
  }
  // A write is repeated from where it stopped, as for a plain socket.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

}  // namespace muster
