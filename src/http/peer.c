/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ways to the owner of a TCP socket on this machine: NETLINK_SOCK_DIAG, which looks up one socket by its two
 * ends; and, if the kernel has no such service, the table /proc/net/tcp.
 *
 * A socket that its owner has closed belongs to no process any more, and the kernel reports root as its user. Such a
 * socket has inode 0 and is not taken. While our own end is connected, no other socket can be connected with the
 * same two ends; so our end is checked last.
 */
#include "http/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define NOBODY     65534u /* stands for users that a user namespace does not have */
#define TABLE_MAX  MIB(1) /* about 7000 sockets; of a longer table the rest is not searched */
#define WAIT_US    100000
#define REPLY_SIZE KIB(2)

enum { ASK_DONE, ASK_NONE, ASK_FAILED };

/* The kernel has answered by NETLINK_SOCK_DIAG: a socket that it does not have is in no table, either. */
static atomic_bool diag_works;

bool peer_is_loopback(const struct sockaddr *peer)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)peer)->sin6_addr;

	if (peer->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)peer)->sin_addr.s_addr) >> 24 == 127;
	return peer->sa_family == AF_INET6 &&
	       (IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127));
}

/* ---- NETLINK_SOCK_DIAG ---- */

/* The port and the address of one end, an IPv4 address in IPv6's form as IPv4. Returns the family. */
static int end_of(const struct sockaddr *a, __be16 *ret_port, __be32 ret_addr[4])
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in *four = (const struct sockaddr_in *)a;

	memset(ret_addr, 0, 4 * sizeof(*ret_addr));
	if (a->sa_family == AF_INET) {
		*ret_port = four->sin_port;
		memcpy(ret_addr, &four->sin_addr, 4);
		return AF_INET;
	}
	*ret_port = six->sin6_port;
	if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		memcpy(ret_addr, six->sin6_addr.s6_addr + 12, 4);
		return AF_INET;
	}
	memcpy(ret_addr, &six->sin6_addr, 16);
	return AF_INET6;
}

/* Is it a connected socket of a process? */
static bool is_connected(unsigned state, uint64_t inode)
{
	return inode && (state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2);
}

static int read_diag(const void *reply, size_t size, const struct inet_diag_sockid *want, uid_t *ret)
{
	const struct nlmsghdr *h = reply;
	const struct inet_diag_msg *m;

	if (!NLMSG_OK(h, size))
		return ASK_FAILED;
	if (h->nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *e = NLMSG_DATA(h);

		return h->nlmsg_len >= NLMSG_LENGTH(sizeof(*e)) && e->error == -ENOENT ? ASK_NONE
										       : ASK_FAILED;
	}
	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return ASK_FAILED;
	m = NLMSG_DATA(h);
	/* If no connected socket has these ends, the kernel returns one that listens at them. */
	if (m->id.idiag_sport != want->idiag_sport || m->id.idiag_dport != want->idiag_dport ||
	    !is_connected(m->idiag_state, m->idiag_inode))
		return ASK_NONE;
	*ret = m->idiag_uid;
	return ASK_DONE;
}

static int ask_diag(const struct sockaddr *from, const struct sockaddr *to, uid_t *ret)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} ask = { .h = { .nlmsg_len = sizeof(ask),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST },
		  .r = { .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u } };
	struct timeval wait = { .tv_usec = WAIT_US };
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	_Alignas(struct nlmsghdr) char reply[REPLY_SIZE];
	AUTO(fd_close)
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	int family = end_of(from, &ask.r.id.idiag_sport, ask.r.id.idiag_src);
	ssize_t n;

	if (fd < 0 || end_of(to, &ask.r.id.idiag_dport, ask.r.id.idiag_dst) != family)
		return ASK_FAILED;
	ask.r.sdiag_family = (uint8_t)family;
	ask.r.id.idiag_cookie[0] = ask.r.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (sendto(fd, &ask, sizeof(ask), 0, (struct sockaddr *)&kernel, sizeof(kernel)) != sizeof(ask))
		return ASK_FAILED;
	n = recv(fd, reply, sizeof(reply), 0);
	return n < 0 ? ASK_FAILED : read_diag(reply, (size_t)n, &ask.r.id, ret);
}

/* ---- /proc/net/tcp ---- */

/* "0100007F:1F42": words of the address in the machine's byte order, the port as a number. */
static void print_end(const struct sockaddr *a, bool six, char out[48])
{
	uint32_t words[4] = { 0 };
	unsigned port;

	if (a->sa_family == AF_INET6) {
		memcpy(words, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
		port = ntohs(((const struct sockaddr_in6 *)a)->sin6_port);
	} else {
		words[2] = htonl(0xffff);
		memcpy(&words[3], &((const struct sockaddr_in *)a)->sin_addr, 4);
		port = ntohs(((const struct sockaddr_in *)a)->sin_port);
	}
	if (six)
		snprintf(out, 48, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3], port);
	else
		snprintf(out, 48, "%08X:%04X", words[3], port);
}

bool peer_find_in_table(struct str text, const struct sockaddr *from, const struct sockaddr *to, uid_t *ret)
{
	char ends[2][2][48];

	for (int six = 0; six < 2; six++) {
		print_end(from, six, ends[six][0]);
		print_end(to, six, ends[six][1]);
	}
	while (text.size) {
		struct str line = str_cut(&text, '\n'), local, remote, state, uid, inode;
		uint64_t user, number;
		bool six;

		str_word(&line);
		local = str_word(&line);
		remote = str_word(&line);
		state = str_word(&line);
		six = local.size > 8 + 5;
		if (!str_eq(local, str_of(ends[six][0])) || !str_eq(remote, str_of(ends[six][1])))
			continue;
		for (int i = 0; i < 3; i++) /* queues, timer, retransmissions */
			str_word(&line);
		uid = str_word(&line);
		str_word(&line);
		inode = str_word(&line);
		if (state.size != 2 || state.p[0] != '0' || !str_to_u64(uid, &user) ||
		    !str_to_u64(inode, &number) || user > UINT32_MAX ||
		    !is_connected((unsigned)(state.p[1] - '0'), number))
			return false;
		*ret = (uid_t)user;
		return true;
	}
	return false;
}

static bool ask_tables(const struct sockaddr *from, const struct sockaddr *to, uid_t *ret)
{
	static const char *const paths[] = { "/proc/self/net/tcp", "/proc/self/net/tcp6" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		AUTO(buf_done) struct buf text = { 0 };

		if (file_read(paths[i], TABLE_MAX, &text, NULL) == 0 &&
		    peer_find_in_table(buf_str(&text), from, to, ret))
			return true;
	}
	return false;
}

/* ---- both ---- */

static bool our_end_is_connected(int fd)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
	       (info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT);
}

bool peer_user(int fd, const struct sockaddr *peer, uid_t *ret)
{
	struct sockaddr_storage own = { 0 };
	socklen_t size = sizeof(own);
	struct ucred who;
	uid_t uid = NOBODY;
	int r;

	if (getsockname(fd, (struct sockaddr *)&own, &size) < 0)
		return false;
	if (own.ss_family == AF_UNIX) {
		size = sizeof(who);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
			return false;
		*ret = who.uid;
		return true;
	}
	if (!peer || !peer_is_loopback(peer))
		return false;
	r = ask_diag(peer, (struct sockaddr *)&own, &uid);
	if (r == ASK_DONE)
		atomic_store(&diag_works, true);
	else if (atomic_load(&diag_works) || !ask_tables(peer, (struct sockaddr *)&own, &uid))
		return false;
	if (!our_end_is_connected(fd))
		return false;
	*ret = uid;
	return true;
}

bool peer_is_trusted(int fd, const struct sockaddr *peer)
{
	uid_t uid;

	return peer_user(fd, peer, &uid) && uid != NOBODY && (uid == 0 || uid == geteuid());
}
