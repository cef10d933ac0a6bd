<?php
// What the page wp-admin/install.php does, for a Job: nothing where WordPress is installed already.
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = $argv[1];
require '/usr/share/wordpress/wp-load.php';
require '/usr/share/wordpress/wp-admin/includes/upgrade.php';
if (is_blog_installed()) {
    wp_upgrade();
    echo "upgraded\n";
    exit(0);
}
$made = wp_install('A blog', 'admin', 'admin@example.com', true, '', wp_generate_password(24));
// How often it was installed: a second one would write a second row.
global $wpdb;
$wpdb->query('CREATE TABLE IF NOT EXISTS installs (at DATETIME)');
$wpdb->query('INSERT INTO installs VALUES (NOW())');
echo "installed\n";
