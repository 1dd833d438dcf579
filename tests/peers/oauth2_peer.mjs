// An authorization server of another make, on loopback: prints its address, and ends with its input.
// It checks PKCE itself. Here its tokens are short-lived and all different, and a refresh token is good for one use.
import { randomUUID } from "node:crypto";
import { OAuth2Server } from "oauth2-mock-server";

const server = new OAuth2Server();
await server.issuer.keys.generate("RS256");
await server.start(0, "127.0.0.1");
server.issuer.url = `http://127.0.0.1:${server.address().port}`;

const usable = new Set();
server.service.on("beforeTokenSigning", (token) => {
  token.payload.jti = randomUUID();
});
server.service.on("beforeResponse", (response, request) => {
  if (request.body.grant_type === "refresh_token" && !usable.delete(request.body.refresh_token)) {
    response.statusCode = 400;
    response.body = { error: "invalid_grant" };
    return;
  }
  response.body.expires_in = 30;
  usable.add(response.body.refresh_token);
});

console.log(server.issuer.url);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
