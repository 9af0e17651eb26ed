#include "common/rpc/certificate_ends.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

struct CertificateRelease {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using ReadCertificate = std::unique_ptr<X509, CertificateRelease>;

absl::StatusOr<std::vector<ReadCertificate>> CertificatesIn(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string pem = text.str();
  std::vector<ReadCertificate> certificates;
  BIO* const bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  while (X509* const each = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr)) {
    certificates.emplace_back(each);
  }
  BIO_free(bio);
  ERR_clear_error();
  if (certificates.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: no certificate in PEM can be read from ", path));
  }
  return certificates;
}

absl::Time EndOf(const X509* certificate) {
  tm end = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) return absl::InfinitePast();
  return absl::FromTimeT(timegm(&end));
}

// Returns the DNS names and IP addresses that the certificate is for.
std::vector<std::string> NamesIn(const X509* certificate) {
  std::vector<std::string> names;
  auto* const alternatives = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(alternatives, i);
    if (name->type == GEN_DNS) {
      names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                         static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD && ASN1_STRING_length(name->d.iPAddress) == 4) {
      const unsigned char* const bytes = ASN1_STRING_get0_data(name->d.iPAddress);
      names.push_back(absl::StrJoin(bytes, bytes + 4, "."));
    }
  }
  GENERAL_NAMES_free(alternatives);
  return names;
}

std::string SubjectOf(const X509* certificate) {
  BIO* const bio = BIO_new(BIO_s_mem());
  X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE);
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio, &text);
  std::string subject(text, static_cast<size_t>(length));
  BIO_free(bio);
  const std::vector<std::string> names = NamesIn(certificate);
  if (!names.empty()) absl::StrAppend(&subject, " (", absl::StrJoin(names, ", "), ")");
  return subject;
}

}  // namespace

absl::StatusOr<CertificateEnds> ReadCertificateEnds(const TlsFiles& files) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<ReadCertificate> chain,
                          CertificatesIn(files.certificate));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<ReadCertificate> authorities,
                          CertificatesIn(files.authority));
  CertificateEnds ends;
  ends.subject = SubjectOf(chain[0].get());
  // Who believes the certificate believes those between it and the authority, too.
  ends.certificate = absl::InfiniteFuture();
  for (const ReadCertificate& each : chain) {
    ends.certificate = std::min(ends.certificate, EndOf(each.get()));
  }
  ends.authority = absl::InfiniteFuture();
  for (const ReadCertificate& each : authorities) {
    ends.authority = std::min(ends.authority, EndOf(each.get()));
  }
  return ends;
}

}  // namespace muster
